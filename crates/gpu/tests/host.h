/* What the texts of the kernels use of CUDA, on the CPU: see tests/texts.rs. One thread after another runs a
   block, and each block runs twice, so that in the second run shared memory holds what all threads put there. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

typedef uint32_t u32;
typedef uint64_t u64;
typedef struct { u32 x, y, z, w; } uint4;
typedef uint4 vec;
typedef struct { u32 x, y; } dim;

static dim blockIdx, blockDim, threadIdx, gridDim;
static uint4 shared_memory[1 << 12];

#define INLINE static inline
#define KERNEL static void
#define SHARED(name) uint4 *const name = shared_memory
#define LOAD(from) (*(from))
#define STORE(to, what) (*(to) = (what))
static inline void __syncthreads(void) {}

static inline u32 permute(u32 a, u32 b, u32 select) {
  const u64 bytes = (u64)b << 32 | a;
  u32 out = 0;
  for (int i = 0; i < 4; i++) {
    const u32 nibble = select >> (4 * i) & 15;
    u32 byte = bytes >> (8 * (nibble & 7)) & 255;
    if (nibble & 8) byte = byte & 128 ? 255 : 0;
    out |= byte << (8 * i);
  }
  return out;
}
static inline u32 xor3(u32 a, u32 b, u32 c) { return a ^ b ^ c; }
static inline u32 and_xor(u32 a, u32 b, u32 c) { return (a & b) ^ c; }

/* Reads row bytes, stripes, input rows, output rows, bytes of a vector, blocks in y, and words of tables (32-bit
   numbers), then the tables and the input rows; runs the kernel; writes the output rows. */
static void take(void *to, size_t bytes) {
  if (fread(to, 1, bytes, stdin) != bytes) exit(2);
}

int main(void) {
  u32 n[7];
  take(n, sizeof n);
  const u64 row = n[0], stripes = n[1], inputs = n[2], outputs = n[3], vectors = row / n[4];
  u32 *tables = aligned_alloc(64, (4 * (u64)n[6] + 127) / 64 * 64);
  unsigned char *in = aligned_alloc(64, (row * stripes * inputs + 127) / 64 * 64);
  unsigned char *out = aligned_alloc(64, (row * stripes * outputs + 127) / 64 * 64);
  take(tables, 4 * (u64)n[6]);
  take(in, row * stripes * inputs);
  for (u64 i = 0; i < row * stripes * outputs; i++) out[i] = 0x5A;
  blockDim.x = 128;
  gridDim.x = (vectors + 127) / 128;
  gridDim.y = n[5];
  for (blockIdx.y = 0; blockIdx.y < gridDim.y; blockIdx.y++)
    for (blockIdx.x = 0; blockIdx.x < gridDim.x; blockIdx.x++)
      for (u32 run = 0; run < 2; run++)
        for (threadIdx.x = 0; threadIdx.x < blockDim.x; threadIdx.x++)
          code(in, out, row * inputs, row, row * outputs, row, vectors, stripes, tables, inputs);
  fwrite(out, 1, row * stripes * outputs, stdout);
  return 0;
}

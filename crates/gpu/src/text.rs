//! Texts of kernels, in the subset of C that the run-time compiler of CUDA and a C compiler share.
//!
//! Two kernels compute the same bytes. The *fixed* kernel is a [`Program`] written out, for one matrix; it has to
//! be compiled first. The *table* kernel (`crate::table`) takes the coefficients as data and serves any matrix
//! with the same number of outputs.
//!
//! Both have the same parameters. A batch is `stripes` stripes; input row `r` of stripe `s` begins at
//! `in + s * in_stripe + r * in_row`, output rows likewise; a row has `vectors` vectors of [`VECTOR`] bytes.
//! Blocks in y go over stripes, in steps of the grid; threads in x over the vectors of a row.
//!
//! Invariant: what differs between the device and a C compiler (memory access, two instructions, indices) is
//! behind the names that [`DEVICE`] defines; the tests define the same names for the CPU.
//!
//! Must not depend on: drivers, devices.

use std::fmt::Write;

use crate::program::{Operation, Value};
use crate::{Program, doubling, table};

/// Bytes of each row that a thread computes: as many as one instruction loads.
pub(crate) const VECTOR: usize = 16;

/// Threads of a block.
pub(crate) const THREADS: usize = 128;

/// The name of every kernel in its text.
pub(crate) const NAME: &str = "code";

/// What the kernels use of CUDA. Operations of three words are written as instructions, because the compiler would
/// order XORs anew and compute shared sums again. Loads and stores mark the lines as the first to be evicted: nothing
/// is read twice.
pub(crate) const DEVICE: &str = r#"
typedef unsigned int u32;
typedef unsigned long long u64;
#define INLINE static __device__ __forceinline__
#define KERNEL extern "C" __global__ void __launch_bounds__(128)
#define SHARED(name) extern __shared__ uint4 name[]
typedef uint4 vec;
#define LOAD(from) __ldcs(from)
#define STORE(to, what) __stcs(to, what)
INLINE u32 permute(u32 a, u32 b, u32 select) {
  u32 out;
  asm("prmt.b32 %0, %1, %2, %3;" : "=r"(out) : "r"(a), "r"(b), "r"(select));
  return out;
}
INLINE u32 xor3(u32 a, u32 b, u32 c) {
  u32 out;
  asm("lop3.b32 %0, %1, %2, %3, 0x96;" : "=r"(out) : "r"(a), "r"(b), "r"(c));
  return out;
}
INLINE u32 and_xor(u32 a, u32 b, u32 c) {
  u32 out;
  asm("lop3.b32 %0, %1, %2, %3, 0x6a;" : "=r"(out) : "r"(a), "r"(b), "r"(c));
  return out;
}
"#;

/// The names of the words of a vector.
const WORDS: [&str; 4] = ["x", "y", "z", "w"];

/// The text of the fixed kernel of a program, without [`DEVICE`].
pub fn fixed(program: &Program) -> String {
    let mut text = doubling::TEXT.to_owned();
    word(&mut text, program);
    let _ = writeln!(text, "{}", head(""));
    for r in 0..program.inputs() {
        let _ = writeln!(text, "    const vec i{r} = LOAD((const vec *)from); from += in_row;");
    }
    let outputs: Vec<String> = (0..program.outputs()).map(|r| format!("o{r}")).collect();
    let _ = writeln!(text, "    vec {};", outputs.join(", "));
    for name in WORDS {
        let inputs = (0..program.inputs()).map(|r| format!("i{r}.{name}"));
        let outputs = (0..program.outputs()).map(|r| format!("&o{r}.{name}"));
        let all: Vec<String> = inputs.chain(outputs).collect();
        let _ = writeln!(text, "    word({});", all.join(", "));
    }
    for r in 0..program.outputs() {
        let _ = writeln!(text, "    STORE((vec *)to, o{r}); to += out_row;");
    }
    text.push_str("  }\n}\n");
    text
}

/// The function that computes one word of every output from one word of every input.
fn word(text: &mut String, program: &Program) {
    let name = |value: Value| match value.checked_sub(program.inputs) {
        None => format!("i{value}"),
        Some(result) => format!("t{result}"),
    };
    let inputs = (0..program.inputs()).map(|r| format!("u32 i{r}"));
    let outputs = (0..program.outputs()).map(|r| format!("u32 *o{r}"));
    let all: Vec<String> = inputs.chain(outputs).collect();
    let _ = writeln!(text, "INLINE void word({}) {{", all.join(", "));
    for (at, operation) in program.operations.iter().enumerate() {
        let made = match *operation {
            Operation::Xor2(a, b) => format!("{} ^ {}", name(a), name(b)),
            Operation::Xor3(a, b, c) => format!("xor3({}, {}, {})", name(a), name(b), name(c)),
            Operation::Double(a) => format!("twice({})", name(a)),
            Operation::DoubleAdd(a, b) => format!("twice_add({}, {})", name(a), name(b)),
        };
        let _ = writeln!(text, "  const u32 t{at} = {made};");
    }
    for (r, output) in program.outputs.iter().enumerate() {
        let made = output.map_or("0".to_owned(), name);
        let _ = writeln!(text, "  *o{r} = {made};");
    }
    text.push_str("}\n");
}

/// The parameters of a kernel, what `before` does once per block, and the beginning of the loop over the stripes:
/// `from` and `to` point to the vectors of this thread in the first input and output row of the stripe.
fn head(before: &str) -> String {
    format!(
        "KERNEL {NAME}(const unsigned char *in, unsigned char *out, u64 in_stripe, u64 in_row,
    u64 out_stripe, u64 out_row, u32 vectors, u32 stripes, const u32 *tables, u32 columns) {{
{before}  const u32 at = blockIdx.x * blockDim.x + threadIdx.x;
  if (at >= vectors) return;
  for (u32 stripe = blockIdx.y; stripe < stripes; stripe += gridDim.y) {{
    const unsigned char *from = in + stripe * in_stripe + (u64)at * sizeof(vec);
    unsigned char *to = out + stripe * out_stripe + (u64)at * sizeof(vec);"
    )
}

/// The text of the table kernel for `outputs` outputs, without [`DEVICE`].
///
/// The tables are in shared memory, column by column ([`table::tables`]). The next two inputs are loaded before one
/// is multiplied.
pub fn table(outputs: usize) -> String {
    let before = "  SHARED(shared);
  u32 *table = (u32 *)shared;
  for (u32 i = threadIdx.x; i < columns * OUTPUTS * ENTRY; i += blockDim.x) table[i] = tables[i];
  __syncthreads();
";
    format!(
        "#define OUTPUTS {outputs}
#define ENTRY {entry}
{multiply}
{head}
    u32 sum[OUTPUTS][4];
    for (u32 r = 0; r < OUTPUTS; r++) sum[r][0] = sum[r][1] = sum[r][2] = sum[r][3] = 0;
    vec first = LOAD((const vec *)from), second = first;
    if (columns > 1) second = LOAD((const vec *)(from + in_row));
    for (u32 c = 0; c < columns; c++) {{
      const vec input = first;
      first = second;
      if (c + 2 < columns) second = LOAD((const vec *)(from + (c + 2) * in_row));
      const struct nibbles a = split(input.x, input.y), b = split(input.z, input.w);
      const u32 *entry = table + c * OUTPUTS * ENTRY;
#pragma unroll
      for (u32 r = 0; r < OUTPUTS; r++, entry += ENTRY) {{
        const uint4 t = *(const uint4 *)entry;
        const u32 high = entry[4];
        multiply(&sum[r][0], a, t, high);
        multiply(&sum[r][2], b, t, high);
      }}
    }}
#pragma unroll
    for (u32 r = 0; r < OUTPUTS; r++) {{
      vec made;
      made.x = permute(sum[r][0], sum[r][1], 0x6420u);
      made.y = permute(sum[r][0], sum[r][1], 0x7531u);
      made.z = permute(sum[r][2], sum[r][3], 0x6420u);
      made.w = permute(sum[r][2], sum[r][3], 0x7531u);
      STORE((vec *)to, made);
      to += out_row;
    }}
  }}
}}
",
        entry = table::ENTRY,
        multiply = table::TEXT,
        head = head(before),
    )
}

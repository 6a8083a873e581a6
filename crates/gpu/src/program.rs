//! A matrix as a straight-line program over 32-bit words, four bytes of a row at a time.
//!
//! **Horner's scheme on the outputs.** With the bits of the coefficients apart, output row `i` is the sum over
//! `b` of `2^b` times `S(i, b)`, where `S(i, b)` is the XOR of the inputs whose coefficient has bit `b`. So
//! `out = ((S7 * 2 + S6) * 2 + ...) * 2 + S0`: seven doublings per output word, whatever the number of inputs, and
//! XORs, of which a GPU does two at once. Doublings are paid per output and not per input, which suits `m < k`.
//!
//! **Shared sums** (the method of the four Russians): inputs are taken in groups of up to [`GROUP`], and a sum of
//! inputs of one group is computed once where that saves work, for all bits of all outputs.
//!
//! Invariants: an operation uses only inputs and results of operations before it. [`Program::run`] and the text
//! (`crate::text`) are made from the same list of operations.
//!
//! Must not depend on: devices, CUDA.
//!
//! Sources: H. P. Anvin, *The mathematics of RAID-6* (doubling four bytes in a word); V. L. Arlazarov et al., *On
//! economical construction of the transitive closure of a directed graph* (1970).

use std::collections::HashMap;

use crate::Matrix;
use crate::doubling::double;

/// Inputs whose sums are shared. docs/benchmarks/gpu.md: with 3 or 5 it is as fast, without sharing 20+10 is
/// 3 to 7 % slower.
const GROUP: usize = 4;

/// Number of a value: the inputs from 0 on, then the results of the operations.
pub(crate) type Value = usize;

/// One operation on words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    /// `a ^ b`
    Xor2(Value, Value),
    /// `a ^ b ^ c`
    Xor3(Value, Value, Value),
    /// Each byte times 2.
    Double(Value),
    /// Each byte of the first times 2, plus the second.
    DoubleAdd(Value, Value),
}

/// See the module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    pub(crate) inputs: usize,
    pub(crate) operations: Vec<Operation>,
    /// The value of each output; none is a row of zeros.
    pub(crate) outputs: Vec<Option<Value>>,
}

impl Program {
    /// The program for a matrix.
    pub fn new(matrix: &Matrix) -> Program {
        let mut builder = Builder::new(matrix);
        let outputs = (0..matrix.outputs()).map(|i| builder.output(i)).collect();
        Program { inputs: matrix.inputs(), operations: builder.operations, outputs }
    }

    /// Input rows.
    pub fn inputs(&self) -> usize {
        self.inputs
    }

    /// Output rows.
    pub fn outputs(&self) -> usize {
        self.outputs.len()
    }

    /// Number of XORs (of two or three words) and of doublings per word of all rows.
    pub fn cost(&self) -> (usize, usize) {
        let doubles = |o: &&Operation| matches!(o, Operation::Double(_) | Operation::DoubleAdd(..));
        let doubles = self.operations.iter().filter(doubles).count();
        (self.operations.len() - doubles, doubles)
    }

    /// Runs the program on one word of each input row: the twin of the kernel on the CPU.
    ///
    /// Panics if `words` is not one word per input row.
    pub fn run(&self, words: &[u32]) -> Vec<u32> {
        assert_eq!(words.len(), self.inputs);
        let mut values = words.to_vec();
        for &operation in &self.operations {
            values.push(match operation {
                Operation::Xor2(a, b) => values[a] ^ values[b],
                Operation::Xor3(a, b, c) => values[a] ^ values[b] ^ values[c],
                Operation::Double(a) => double(values[a]),
                Operation::DoubleAdd(a, b) => double(values[a]) ^ values[b],
            });
        }
        self.outputs.iter().map(|output| output.map_or(0, |v| values[v])).collect()
    }
}

struct Builder<'a> {
    matrix: &'a Matrix,
    operations: Vec<Operation>,
    /// How often each sum of inputs of a group is used: by the group and the set of its inputs.
    uses: HashMap<(usize, u8), usize>,
    sums: HashMap<(usize, u8), Value>,
}

impl Builder<'_> {
    fn new(matrix: &Matrix) -> Builder<'_> {
        let mut builder =
            Builder { matrix, operations: Vec::new(), uses: HashMap::new(), sums: HashMap::new() };
        for output in 0..matrix.outputs() {
            for bit in 0..8 {
                for sum in builder.sets(output, bit) {
                    *builder.uses.entry(sum).or_default() += 1;
                }
            }
        }
        builder
    }

    /// The groups, and within each the set of inputs, whose coefficient has a bit: those that are not empty.
    fn sets(&self, output: usize, bit: u32) -> Vec<(usize, u8)> {
        let set = |group: usize| {
            let first = group * GROUP;
            let inputs = first..self.matrix.inputs().min(first + GROUP);
            let has = |input: usize| self.matrix.at(output, input) >> bit & 1;
            inputs.fold(0, |set, input| set | has(input) << (input - first))
        };
        let groups = 0..self.matrix.inputs().div_ceil(GROUP);
        groups.map(|group| (group, set(group))).filter(|&(_, set)| set != 0).collect()
    }

    fn push(&mut self, operation: Operation) -> Value {
        self.operations.push(operation);
        self.matrix.inputs() + self.operations.len() - 1
    }

    /// The values whose XOR is the sum of the inputs in `set`.
    fn terms(&mut self, (group, set): (usize, u8)) -> Vec<Value> {
        if let Some(&value) = self.sums.get(&(group, set)) {
            return vec![value];
        }
        let first = group * GROUP;
        let inputs: Vec<Value> = (0..GROUP).filter(|i| set >> i & 1 != 0).map(|i| first + i).collect();
        // A shared sum costs an operation and saves half of one per further input at each use.
        let saved = self.uses[&(group, set)] * (inputs.len() - 1);
        if inputs.len() == 1 || saved <= 2 {
            return inputs;
        }
        // The sum without its last input, if that is there already, else all anew.
        let (&last, rest) = inputs.split_last().expect("a set is not empty");
        let without = set & !(1 << (last - first));
        let value = match self.sums.get(&(group, without)) {
            Some(&known) => self.push(Operation::Xor2(known, last)),
            None => self.sum(rest.iter().copied().chain([last]).collect()),
        };
        self.sums.insert((group, set), value);
        vec![value]
    }

    /// The XOR of one or more values.
    fn sum(&mut self, values: Vec<Value>) -> Value {
        let mut values = values.into_iter();
        let mut sum = values.next().expect("a sum has terms");
        while let Some(a) = values.next() {
            sum = match values.next() {
                Some(b) => self.push(Operation::Xor3(sum, a, b)),
                None => self.push(Operation::Xor2(sum, a)),
            };
        }
        sum
    }

    fn output(&mut self, output: usize) -> Option<Value> {
        let mut sum = None;
        for bit in (0..8).rev() {
            let mut terms: Vec<Value> = Vec::new();
            for set in self.sets(output, bit) {
                terms.extend(self.terms(set));
            }
            let Some(above) = sum else {
                sum = (!terms.is_empty()).then(|| self.sum(terms));
                continue;
            };
            // Doubling takes in one term without a further instruction.
            let doubled = match terms.pop() {
                Some(term) => self.push(Operation::DoubleAdd(above, term)),
                None => self.push(Operation::Double(above)),
            };
            terms.insert(0, doubled);
            sum = Some(self.sum(terms));
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_sums_make_wide_programs_shorter() {
        let code = ashlar_erasure::Code::new(20, 10).unwrap();
        let (present, lost): (Vec<usize>, Vec<usize>) = ((10..30).collect(), (0..10).collect());
        let matrix = Matrix::decode(&code, &present, &lost).unwrap().1;
        let bits = |(output, input)| matrix.at(output, input).count_ones() as usize;
        let pairs = (0..10).flat_map(|output| (0..20).map(move |input| (output, input)));
        let terms: usize = pairs.map(bits).sum();
        let xors = Program::new(&matrix).cost().0;
        // A XOR takes in two terms at most.
        assert!(xors * 3 < terms / 2 * 2, "{xors} for {terms} terms");
    }
}

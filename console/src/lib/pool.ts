// Calls beside each other, at most some at a time.

/** The results of `call` for each value, in their order; the first error ends it. */
export async function pooled<T, R>(values: readonly T[], atOnce: number, call: (value: T) => Promise<R>): Promise<R[]> {
  const out = new Array<R>(values.length);
  let next = 0;
  const worker = async () => {
    while (next < values.length) {
      const i = next++;
      out[i] = await call(values[i] as T);
    }
  };
  await Promise.all(Array.from({ length: Math.min(atOnce, values.length) }, worker));
  return out;
}

// Frames of a long list while it is scrolled through pages that have to be fetched. The time between frames is that of the whole
// machine; the processor time is that of the page's own thread, which other programs do not change.

/** Scrolls a list by 400 pixels in each frame for some milliseconds. `first`: the name of its first row. */
export async function scrollThrough(page, context, base, route, first, milliseconds) {
  await page.goto(`${base}/console/#${route}`);
  await page.getByRole("button", { name: first, exact: true }).waitFor();
  const session = await context.newCDPSession(page);
  const events = [];
  session.on("Tracing.dataCollected", (e) => events.push(...e.value));
  await session.send("Tracing.start", { transferMode: "ReportEvents", traceConfig: { includedCategories: ["toplevel"] } });
  const frames = await page.evaluate(async (time) => {
    const list = document.querySelector('[role="table"]');
    const gaps = [];
    let last = performance.now();
    const end = last + time;
    while (last < end) {
      await new Promise(requestAnimationFrame);
      const now = performance.now();
      gaps.push(now - last);
      last = now;
      list.scrollTop += 400;
    }
    return { gaps: gaps.sort((a, b) => a - b), rows: Math.round(list.scrollTop / 44) };
  }, milliseconds);
  const ended = new Promise((resolve) => session.once("Tracing.tracingComplete", resolve));
  await session.send("Tracing.end");
  await ended;
  const { gaps, rows } = frames;
  const tasks = tasksOf(events);
  return {
    frames: gaps.length, rows, median: gaps[gaps.length >> 1], p99: gaps[Math.floor(gaps.length * 0.99)], longest: gaps.at(-1),
    long: gaps.filter((gap) => gap > 50).length, each: tasks.reduce((all, task) => all + task, 0) / gaps.length, task: Math.max(...tasks),
  };
}

/** Milliseconds of processor time of each task of the page's thread: the one with most of them. */
function tasksOf(events) {
  const pages = new Map(events.filter((e) => e.name === "thread_name" && e.args.name === "CrRendererMain").map((e) => [`${e.pid} ${e.tid}`, []]));
  for (const e of events) if (e.name === "ThreadControllerImpl::RunTask" && e.tdur) pages.get(`${e.pid} ${e.tid}`)?.push(e.tdur / 1000);
  return [...pages.values()].sort((a, b) => b.length - a.length)[0];
}

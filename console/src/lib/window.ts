// The part of a long list that is on the screen. All rows have the same height, so that where a row is follows from its
// number: nothing is measured, and nothing is kept for each row.
//
// Browsers place nothing below some height. A list that would be higher is shown in a shorter area, and scrolling through
// the area by a pixel moves the rows by more than one: each row can still be reached.
import { useLayoutEffect, useState, type RefObject } from "react";
import { flushSync } from "react-dom";

/** Pixels: Firefox ends at 17.8 million, Chromium at 33.5 million. */
const HIGHEST = 16_000_000;
/** Rows above and below the visible ones that are rendered too. */
const BESIDE = 12;
/** Rows that are scrolled by before others are rendered. */
const STEP = 4;
/** Rows of a list that is too high are placed from the last multiple of this: style sheets have too few digits for all. */
const BASE = 10_000;

export type Window = {
  /** The rendered rows: `first` to `end`, without `end`. */
  first: number;
  end: number;
  /** The height of the area, in pixels. */
  height: number;
  /** Where the rows are in the area: row `base` at `shift` pixels, the others below and above it. */
  base: number;
  shift: number;
};

/** How much the rows move for each pixel that is scrolled. */
const ratio = (count: number, row: number, view: number) => (count * row <= HIGHEST ? 1 : (count * row - view) / (HIGHEST - view));

/** What is rendered of `count` rows of `row` pixels when an area that shows `view` pixels is scrolled to `top`. */
export function windowOf(count: number, row: number, top: number, view: number): Window {
  const scale = ratio(count, row, view);
  const offset = top * scale;
  const first = Math.min(count, Math.max(0, Math.floor(offset / row) - BESIDE));
  const end = Math.min(count, Math.ceil((offset + view) / row) + STEP + BESIDE);
  const base = scale === 1 ? 0 : Math.floor(first / BASE) * BASE;
  return { first, end, height: Math.min(count * row, HIGHEST), base, shift: scale === 1 ? 0 : base * row + top - offset };
}

/** The part of a list that `scroll` shows, which has to be there when the component is. */
export function useWindow(scroll: RefObject<HTMLElement | null>, count: number, row: number): Window {
  const [at, setAt] = useState({ top: 0, view: 0 });
  const scale = ratio(count, row, at.view);
  useLayoutEffect(() => {
    const area = scroll.current!;
    const read = (view: number) => {
      const step = STEP * row;
      const top = scale === 1 ? Math.floor(area.scrollTop / step) * step : area.scrollTop;
      setAt((old) => (old.top === top && old.view === view ? old : { top, view }));
    };
    let view = area.clientHeight;
    // In the frame that is scrolled, so that no place is empty.
    const onScroll = () => flushSync(() => read(view));
    const sizes = new ResizeObserver(() => {
      view = area.clientHeight;
      read(view);
    });
    read(view);
    sizes.observe(area);
    area.addEventListener("scroll", onScroll, { passive: true });
    return () => {
      sizes.disconnect();
      area.removeEventListener("scroll", onScroll);
    };
  }, [scroll, row, scale]);
  // Rows that are added to a list that is too high make the others move by more: those on the screen stay.
  const [before, setBefore] = useState(scale);
  useLayoutEffect(() => {
    if (before === scale) return;
    setBefore(scale);
    scroll.current!.scrollTop = (scroll.current!.scrollTop * before) / scale;
  }, [scroll, scale, before]);
  return windowOf(count, row, at.top, at.view);
}

// The icons of the console: strokes on a grid of 24, drawn in the colour of the text. They never stand for a word alone
// unless the button has a label for screen readers.
const PATHS = {
  audit: "M8 5H6v15h12V5h-2M9 3.500h6v3H9v-3ZM9 11h6m-6 4h4",
  bell: "M6 16V11a6 6 0 0 1 12 0v5l1.500 2h-15L6 16Zm4 4.500h4",
  lock: "M6 11h12v9H6v-9Zm2.500 0V8a3.500 3.500 0 0 1 7 0v3M12 14.500v2",
  idp: "M4 6h16v12H4V6Zm4.500 6.500a1.800 1.800 0 1 0 0-3.600 1.800 1.800 0 0 0 0 3.600ZM5.800 16c.3-1.400 1.400-2.200 2.700-2.200s2.400.8 2.700 2.200M14 10h4m-4 3.500h3",
  terminal: "M4 5h16v14H4zM8 9l3 3-3 3M13 15h3",
  trace: "M3 12h4l2.500-6 4 12L16 12h5",
  home: "M4 11.5 12 5l8 6.5M6 10v9h12v-9",
  bucket: "M4 7h16l-2 12H6L4 7Zm0 0c0-1.7 3.6-3 8-3s8 1.3 8 3-3.6 3-8 3-8-1.3-8-3Z",
  users: "M9 11a3.5 3.5 0 1 0 0-7 3.5 3.5 0 0 0 0 7Zm-6 9c0-3.3 2.7-6 6-6s6 2.7 6 6M16 4.5a3.5 3.5 0 0 1 0 6.5m2 3.5c1.9 1 3 2.900 3 5.500",
  group: "M12 12a3 3 0 1 0 0-6 3 3 0 0 0 0 6Zm-5 8c0-2.800 2.200-5 5-5s5 2.200 5 5M5 13a2.500 2.500 0 1 1 0-5m14 5a2.500 2.500 0 1 0 0-5",
  key: "M14.500 9.500a4.500 4.500 0 1 0-3.300 4.300L13 15.500h2v2h2v2h3v-3.300l-5.600-5.600c.07-.35.1-.72.1-1.100ZM8.500 9.500h.01",
  policy: "M7 3h7l5 5v13H7V3Zm7 0v5h5M10 13h6m-6 4h6",
  drive: "M4 5h16v6H4V5Zm0 8h16v6H4v-6Zm3-5h.01M7 16h.01M11 8h6m-6 8h6",
  why: "M12 21a9 9 0 1 0 0-18 9 9 0 0 0 0 18Zm-2.500-11.500a2.500 2.500 0 1 1 3.500 2.300c-.7.3-1 .8-1 1.700m0 3h.01",
  connect: "M8 7 3.500 12 8 17m8-10 4.500 5L16 17M13.500 5l-3 14",
  menu: "M4 7h16M4 12h16M4 17h16",
  close: "M6 6l12 12M18 6 6 18",
  more: "M6 12h.01M12 12h.01M18 12h.01",
  plus: "M12 5v14M5 12h14",
  minus: "M5 12h14",
  upload: "M12 16V5m-5 5 5-5 5 5M5 19h14",
  download: "M12 5v11m-5-5 5 5 5-5M5 19h14",
  folder: "M3 6h6l2 2.500h10V19H3V6Z",
  file: "M6 3h8l4 4v14H6V3Zm8 0v4h4",
  trash: "M5 7h14M10 7V4h4v3m-7 0 1 13h8l1-13",
  link: "M10 14a4 4 0 0 0 5.700 0l3-3a4 4 0 0 0-5.700-5.700l-1 1M14 10a4 4 0 0 0-5.700 0l-3 3a4 4 0 0 0 5.700 5.700l1-1",
  copy: "M9 9h11v11H9V9Zm-4 6H4V4h11v1",
  check: "M5 12.500 10 17l9-10",
  warn: "M12 4 2.500 20h19L12 4Zm0 6v5m0 2.500h.01",
  bad: "M12 21a9 9 0 1 0 0-18 9 9 0 0 0 0 18ZM12 7.500V13m0 3.500h.01",
  good: "M12 21a9 9 0 1 0 0-18 9 9 0 0 0 0 18Zm-4-9 3 3 5-6",
  search: "M10.500 17a6.500 6.500 0 1 0 0-13 6.500 6.500 0 0 0 0 13Zm5-1.500L20 20",
  refresh: "M20 11a8 8 0 0 0-14-4.500L4 9m0-5v5h5m-5 4a8 8 0 0 0 14 4.500l2-2.500m0 5v-5h-5",
  settings: "M4 7h9m4 0h3M4 17h3m4 0h9M15 9.500a2.500 2.500 0 1 0 0-5 2.500 2.500 0 0 0 0 5Zm-6 10a2.500 2.500 0 1 0 0-5 2.500 2.500 0 0 0 0 5Z",
  chevron: "m9 6 6 6-6 6",
  back: "m15 6-6 6 6 6",
  down: "m6 9 6 6 6-6",
  out: "M14 4h5v16h-5M10 8l-4 4 4 4m-4-4h9",
  sun: "M12 16a4 4 0 1 0 0-8 4 4 0 0 0 0 8Zm0-13v2m0 14v2m9-9h-2M5 12H3m15.400-6.400L17 7M7 17l-1.400 1.400m12.800 0L17 17M7 7 5.600 5.600",
  info: "M12 21a9 9 0 1 0 0-18 9 9 0 0 0 0 18Zm0-10v5.500m0-9h.01",
  edit: "M4 20h4L19 9l-4-4L4 16v4Zm9-13 4 4",
  history: "M4 12a8 8 0 1 0 2.500-5.800L4 8.500M4 4v4.500h4.500M12 8v4.500l3 2",
  restore: "M9 7 4.500 11.500 9 16m-4.500-4.500H15a5 5 0 0 1 0 10h-2",
} as const;

export type IconName = keyof typeof PATHS;

export function Icon({ name, className = "size-[1.15rem]" }: { name: IconName; className?: string }) {
  return (
    <svg viewBox="0 0 24 24" className={`shrink-0 ${className}`} fill="none" stroke="currentColor" strokeWidth={name === "more" ? 3 : 1.7} strokeLinecap="round" strokeLinejoin="round" aria-hidden="true">
      <path d={PATHS[name]} />
    </svg>
  );
}

export function Logo({ className = "size-8" }: { className?: string }) {
  return (
    <svg viewBox="0 0 32 32" className={className} aria-hidden="true">
      <rect width="32" height="32" rx="7" className="fill-[#0b6b5c]" />
      <g fill="#fff">
        <rect x="6" y="7" width="12" height="5" rx="1" />
        <rect x="20" y="7" width="6" height="5" rx="1" opacity=".7" />
        <rect x="6" y="14" width="6" height="5" rx="1" opacity=".7" />
        <rect x="14" y="14" width="12" height="5" rx="1" />
        <rect x="6" y="21" width="12" height="5" rx="1" />
        <rect x="20" y="21" width="6" height="5" rx="1" opacity=".7" />
      </g>
    </svg>
  );
}

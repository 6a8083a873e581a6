// A table that can be sorted, filtered and paged: by the browser for lists that the server sends whole, or by the server.
import { flexRender, getCoreRowModel, getFilteredRowModel, getPaginationRowModel, getSortedRowModel, useReactTable, type ColumnDef, type RowData, type SortingState } from "@tanstack/react-table";
import clsx from "clsx";
import { useEffect, useState, type ReactNode } from "react";
import { useT } from "../i18n";
import { useFormat } from "../lib/format";
import { Button, Input, Spinner } from ".";
import { Icon } from "./icons";

declare module "@tanstack/react-table" {
  interface ColumnMeta<TData extends RowData, TValue> {
    /** Classes of its cells: `hide` on small screens, alignment. */
    className?: string;
  }
}

export type Column<T> = ColumnDef<T, any>;

const PAGE = 100;
/** Longer lists are sorted by characters: to find numbers in names, so that 9 comes before 10, would take too long. */
const LONG = 2000;

/** What a table shows of a list. */
export type View = { text: string; sorting: SortingState; page: number };

/** A list of which the server sends the page that is shown: `data` is this page. */
export type Paged = {
  view: View;
  onView: (view: View) => void;
  /** Rows that match the text, and all rows. */
  found: number;
  all: number;
  /** Whether another page is on its way. */
  busy: boolean;
};

export function DataTable<T>({ data, columns, label, filter, empty, sort, actions, paged }: {
  data: T[]; columns: Column<T>[]; label: string; filter: string; empty: ReactNode; sort?: SortingState; actions?: ReactNode; paged?: Paged;
}) {
  const t = useT();
  const f = useFormat();
  const [own, setOwn] = useState<View>({ text: "", sorting: sort ?? [], page: 0 });
  const { text, sorting, page } = paged?.view ?? own;
  const change = (some: Partial<View>) => (paged ? paged.onView({ ...paged.view, ...some }) : setOwn({ ...own, ...some }));
  const table = useReactTable({
    data, columns,
    defaultColumn: { sortingFn: data.length > LONG ? "basic" : "auto" },
    state: { sorting, globalFilter: text, pagination: { pageIndex: page, pageSize: PAGE } },
    // What is first in another order, or among what is found, is on the first page.
    onSortingChange: (next) => change({ sorting: typeof next === "function" ? next(sorting) : next, page: 0 }),
    onPaginationChange: (next) => change({ page: (typeof next === "function" ? next({ pageIndex: page, pageSize: PAGE }) : next).pageIndex }),
    autoResetPageIndex: false,
    globalFilterFn: "includesString",
    getColumnCanGlobalFilter: () => true,
    getCoreRowModel: getCoreRowModel(),
    ...(paged ? { manualSorting: true, manualFiltering: true, manualPagination: true, rowCount: paged.found } : {
      getSortedRowModel: getSortedRowModel(),
      getFilteredRowModel: getFilteredRowModel(),
      getPaginationRowModel: getPaginationRowModel(),
    }),
  });
  const all = paged ? paged.all : data.length;
  const found = paged ? paged.found : table.getFilteredRowModel().rows.length;
  // A list that has become shorter.
  const last = Math.max(0, Math.ceil(found / PAGE) - 1);
  useEffect(() => {
    if (page > last && !paged?.busy) change({ page: last });
  });
  if (all === 0) return <div className="rounded-xl border bg-surface shadow-card">{empty}</div>;
  return (
    <div className="rounded-xl border bg-surface shadow-card">
      <div className="flex flex-wrap items-center gap-2 border-b p-2.5 sm:px-4">
        <div className="relative min-w-40 flex-1 sm:max-w-72">
          <Icon name="search" className="absolute top-2.5 left-2.5 size-4 text-soft" />
          <Input type="search" aria-label={filter} placeholder={filter} value={text} onChange={(e) => change({ text: e.target.value, page: 0 })} className="border-line! pl-8" />
        </div>
        <span className="num flex items-center gap-2 text-xs text-soft" role="status">{paged?.busy && <Spinner className="size-3.5" />}{t.countOf(f.count(found), f.count(all))}</span>
        <div className="ml-auto flex gap-2">{actions}</div>
      </div>
      <div className="overflow-x-auto" tabIndex={0} role="region" aria-label={label}>
        <table className="w-full text-sm">
          <caption className="sr-only">{label}</caption>
          <thead className="text-left text-xs text-soft">
            {table.getHeaderGroups().map((group) => (
              <tr key={group.id}>
                {group.headers.map((header) => {
                  const sorted = header.column.getIsSorted();
                  return (
                    <th key={header.id} scope="col" aria-sort={sorted === "asc" ? "ascending" : sorted === "desc" ? "descending" : undefined} className={clsx("border-b px-4 py-2 font-medium whitespace-nowrap", header.column.columnDef.meta?.className)}>
                      {header.column.getCanSort() ? (
                        <button type="button" onClick={header.column.getToggleSortingHandler()} className="inline-flex items-center gap-1 hover:text-text">
                          {flexRender(header.column.columnDef.header, header.getContext())}
                          <Icon name="down" className={clsx("size-3.5 transition-transform", !sorted && "opacity-0", sorted === "asc" && "rotate-180")} />
                        </button>
                      ) : <span className={header.column.id === "menu" ? "sr-only" : ""}>{flexRender(header.column.columnDef.header, header.getContext())}</span>}
                    </th>
                  );
                })}
              </tr>
            ))}
          </thead>
          <tbody>
            {table.getRowModel().rows.map((row) => (
              <tr key={row.id} className="group border-b last:border-0 hover:bg-hover/60">
                {row.getVisibleCells().map((cell) => (
                  <td key={cell.id} className={clsx("px-4 py-2 align-middle", cell.column.columnDef.meta?.className)}>
                    {flexRender(cell.column.columnDef.cell, cell.getContext())}
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {found === 0 && <p className="px-4 py-8 text-center text-sm text-soft">{t.nothingMatches}</p>}
      {found > PAGE && (
        <div className="flex items-center justify-between gap-3 border-t px-4 py-2.5 text-sm">
          <Button onClick={() => table.previousPage()} disabled={!table.getCanPreviousPage()}>{t.previous}</Button>
          <span className="num text-soft">{t.pageOf(f.count(page + 1), f.count(table.getPageCount()))}</span>
          <Button onClick={() => table.nextPage()} disabled={!table.getCanNextPage()}>{t.next}</Button>
        </div>
      )}
    </div>
  );
}

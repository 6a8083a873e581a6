// A menu behind a button. In a file of its own, so that the first page does not load it.
import clsx from "clsx";
import { DropdownMenu } from "radix-ui";
import type { ReactNode } from "react";
import { Icon, type IconName } from "./icons";

export type MenuItem = { label: string; icon?: IconName; danger?: boolean; because?: string | undefined; onSelect: () => void } | null;

/** A menu behind a button with three dots. */
export function Menu({ label, items, children }: { label: string; items: MenuItem[]; children?: ReactNode }) {
  return (
    <DropdownMenu.Root modal={false}>
      <DropdownMenu.Trigger asChild>
        {children ?? (
          <button type="button" aria-label={label} className="inline-grid size-9 place-items-center rounded-md text-soft hover:bg-hover hover:text-text data-[state=open]:bg-hover">
            <Icon name="more" />
          </button>
        )}
      </DropdownMenu.Trigger>
      <DropdownMenu.Portal>
        <DropdownMenu.Content align="end" sideOffset={4} collisionPadding={8} className="rise z-50 min-w-44 rounded-lg border bg-surface p-1 shadow-float">
          {items.map((item, i) =>
            item === null ? <DropdownMenu.Separator key={i} className="my-1 h-px bg-line" /> : (
              <DropdownMenu.Item
                key={item.label} onSelect={item.onSelect} disabled={item.because !== undefined}
                className={clsx("flex items-center gap-2.5 rounded-md px-2.5 py-1.5 text-sm outline-none data-[disabled]:opacity-60 data-[highlighted]:bg-hover", item.danger && "text-bad")}
              >
                {item.icon && <Icon name={item.icon} />}
                <span>
                  {item.label}
                  {item.because && <span className="block max-w-56 text-xs text-soft">{item.because}</span>}
                </span>
              </DropdownMenu.Item>
            ),
          )}
        </DropdownMenu.Content>
      </DropdownMenu.Portal>
    </DropdownMenu.Root>
  );
}

// A menu behind a button. In a file of its own, so that the first page does not load it.
import clsx from "clsx";
import { DropdownMenu } from "radix-ui";
import { useState, type KeyboardEvent, type ReactNode } from "react";
import { Icon, type IconName } from "./icons";

export type MenuItem = { label: string; icon?: IconName; danger?: boolean; because?: string | undefined; onSelect: () => void } | null;

/** A menu behind a button with three dots, or behind `children`. */
export function Menu({ label, items, children }: { label: string; items: MenuItem[]; children?: ReactNode }) {
  const [used, setUsed] = useState(false);
  const look = "inline-grid size-9 place-items-center rounded-md text-soft hover:bg-hover hover:text-text data-[state=open]:bg-hover";
  // Tables have a menu in each row, and hardly any is opened: until then there is only a button.
  if (!used && !children) {
    const onKeyDown = (e: KeyboardEvent) => {
      if (e.key !== "ArrowDown") return;
      e.preventDefault();
      setUsed(true);
    };
    return <button type="button" aria-label={label} aria-haspopup="menu" aria-expanded={false} onClick={() => setUsed(true)} onKeyDown={onKeyDown} className={look}><Icon name="more" /></button>;
  }
  return (
    <DropdownMenu.Root modal={false} defaultOpen={used}>
      <DropdownMenu.Trigger asChild>
        {children ?? <button type="button" aria-label={label} className={look}><Icon name="more" /></button>}
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

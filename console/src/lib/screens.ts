// The screens of the navigation, for the navigation itself and for the command bar.
import type { Messages } from "../i18n";
import type { IconName } from "../ui/icons";

export type Screen = { to: string; icon: IconName; label: string; exact?: boolean };

export function screens(t: Messages): { title: string; items: Screen[] }[] {
  return [
    { title: "", items: [{ to: "/", icon: "home", label: t.nav.overview, exact: true }, { to: "/connect", icon: "connect", label: t.nav.connect }] },
    { title: t.nav.data, items: [{ to: "/buckets", icon: "bucket", label: t.nav.buckets }] },
    {
      title: t.nav.access, items: [
        { to: "/users", icon: "users", label: t.nav.users }, { to: "/groups", icon: "group", label: t.nav.groups },
        { to: "/keys", icon: "key", label: t.nav.keys }, { to: "/policies", icon: "policy", label: t.nav.policies }, { to: "/providers", icon: "idp", label: t.nav.providers }, { to: "/why", icon: "why", label: t.nav.why },
        { to: "/audit", icon: "audit", label: t.nav.audit },
      ],
    },
    {
      title: t.nav.system, items: [
        { to: "/drives", icon: "drive", label: t.nav.drives }, { to: "/trace", icon: "trace", label: t.nav.trace }, { to: "/logs", icon: "file", label: t.nav.logs },
        { to: "/targets", icon: "bell", label: t.nav.targets }, { to: "/encryption", icon: "lock", label: t.nav.encryption }, { to: "/settings", icon: "settings", label: t.nav.config },
        { to: "/commands", icon: "terminal", label: t.nav.commands },
      ],
    },
  ];
}

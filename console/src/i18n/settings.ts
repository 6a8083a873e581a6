// The server's descriptions of settings in the person's language. Their names in the catalogues are the server's English
// texts: a setting that is new, or whose text has changed, is shown in English and never with a text that means another.
import { useQuery } from "@tanstack/react-query";
import { usePrefs, type Language } from "../lib/prefs";

type Texts = Record<string, string>;

const load: Record<Language, () => Promise<Texts>> = {
  en: () => Promise.resolve({}),
  de: () => import("./settings.de.json").then((m) => m.default),
};

/** A description in the person's language. `lang`: the language that it is in, where this is not the page's. */
export type Described = { text: string; lang: "en" | undefined };

/** Translates what the server says of a setting. */
export function useDescribed(): (english: string) => Described {
  const { language } = usePrefs();
  const texts = useQuery({ queryKey: ["setting texts", language], queryFn: load[language], staleTime: Infinity }).data;
  return (english) => {
    const text = texts?.[english];
    return text === undefined ? { text: english, lang: language === "en" ? undefined : "en" } : { text, lang: undefined };
  };
}

// The entry: what every screen needs, and the table of screens.
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { RouterProvider } from "@tanstack/react-router";
import { setNonce } from "get-nonce";
import { Tooltip } from "radix-ui";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { Failure, whenSessionEnds } from "./api/client";
import { loadMessages } from "./i18n";
import { takeProviderReturn } from "./lib/session";
import { router } from "./router";
import "./styles/app.css";

// The page's policy permits styles with this nonce only; the library of dialogs adds one.
setNonce(document.querySelector<HTMLMetaElement>('meta[name="nonce"]')?.content ?? "");

const client = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 5_000,
      // What the server refused stays refused; what did not arrive may arrive.
      retry: (count, error) => count < 2 && error instanceof Failure && (error.status === 0 || error.status >= 502),
    },
  },
});
whenSessionEnds(() => {
  if (client.getQueryData(["session"])) client.setQueryData(["session"], null);
});

takeProviderReturn();
await loadMessages();
createRoot(document.getElementById("root")!).render(
  <StrictMode>
    <QueryClientProvider client={client}>
      <Tooltip.Provider>
        <RouterProvider router={router} />
      </Tooltip.Provider>
    </QueryClientProvider>
  </StrictMode>,
);

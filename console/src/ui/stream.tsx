// How a stream is: connected, broken off, refused.
import { useT } from "../i18n";
import { POLL_S, type Stream } from "../lib/stream";
import { Badge, Button, Problem, Spinner } from ".";
import { Icon } from "./icons";

export function StreamBanner({ stream }: { stream: Stream<unknown> }) {
  const t = useT();
  if (stream.state === "refused") return <div className="mb-4"><Problem error={stream.problem} /></div>;
  if (stream.paused || stream.state === "live" || stream.state === "connecting") return null;
  return (
    <p role="status" className="mb-4 flex items-start gap-2 rounded-lg bg-warn-soft px-3.5 py-2.5 text-sm">
      <Icon name="warn" className="mt-0.5 size-4 text-warn" />
      {stream.state === "held" ? t.stream.held : stream.state === "polling" ? t.stream.polling(POLL_S) : t.stream.broken(stream.retryIn)}
    </p>
  );
}

export function StreamControls({ stream }: { stream: Stream<unknown> }) {
  const t = useT();
  return (
    <>
      <span role="status" className="mr-1 inline-flex items-center">
        {stream.paused ? <Badge>{t.stream.paused}</Badge> : stream.state === "live" ? <Badge tone="good" icon="good">{t.stream.live}</Badge> : stream.state === "polling" ? <Badge tone="warn">{t.stream.every(POLL_S)}</Badge> : stream.state === "refused" ? null : <Badge><Spinner className="size-3" /> {t.stream.connecting}</Badge>}
      </span>
      <Button onClick={() => stream.setPaused(!stream.paused)}>{stream.paused ? t.stream.resume : t.stream.pause}</Button>
      <Button tone="quiet" onClick={stream.clear}>{t.stream.clear}</Button>
    </>
  );
}

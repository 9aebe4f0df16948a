"""A proxy before a store that fails as networks and stores do: latency, a rate, lost connections, bodies cut short, 503, other ETags.

It is a server for its client (the Host header goes on as it came, so that signatures hold), in a thread of this process.
"""
import asyncio
import random
import re
import threading

SLOW_DOWN = b"<?xml version='1.0'?><Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"


class Faults:
    """Chances of 0 to 1, each for a request. `latency` in seconds, `rate` in bytes a second of a connection."""

    NAMES = ["refused", "lost", "slow_down", "broken", "cut", "reset", "hung"]

    def __init__(self, seed=0, latency=0.0, rate=0, etag=0.0, **chances):
        self.random = random.Random(seed)
        self.latency, self.rate, self.etag = latency, rate, etag
        self.chances = {name: chances.pop(name, 0.0) for name in self.NAMES}
        self.script = []  # names for the next requests with a body, before chance has a say
        assert not chances, chances

    def next(self):
        if self.script:
            return self.script.pop(0)
        return next((name for name, chance in self.chances.items() if self.random.random() < chance), None)


class Proxy:
    def __init__(self, upstream_port, faults=None, tls=None):
        self.upstream, self.faults, self.requests, self.heads, self.spans = upstream_port, faults or Faults(), [], [], []
        self.loop = asyncio.new_event_loop()
        started = threading.Event()

        async def start():
            self.server = await asyncio.start_server(self.serve, "127.0.0.1", 0, limit=1 << 20, ssl=tls)
            self.port = self.server.sockets[0].getsockname()[1]
            started.set()

        self.loop.create_task(start())
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()
        started.wait()
        self.url = f"http{'s' if tls else ''}://127.0.0.1:{self.port}"

    def end(self):
        async def stop():
            self.server.close()
            for task in asyncio.all_tasks() - {asyncio.current_task()}:
                task.cancel()
            self.loop.call_soon(self.loop.stop)

        asyncio.run_coroutine_threadsafe(stop(), self.loop)
        self.thread.join(5)

    async def serve(self, reader, writer):
        try:
            while await self.one(reader, writer):
                pass
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    def round_trips(self):
        """The most requests of which each began after the one before had its answer."""
        count, last = 0, 0.0
        for begin, end in sorted(self.spans, key=lambda span: span[1]):
            if begin >= last:
                count, last = count + 1, end
        return count

    @staticmethod
    def lose(writer):
        writer.transport.abort()
        return False

    async def one(self, reader, writer):
        head = await reader.readuntil(b"\r\n\r\n")
        self.requests.append(head.split(b"\r\n")[0].decode())
        self.heads.append(head.decode("latin-1"))
        length = re.search(rb"(?i)\r\ncontent-length: (\d+)", head)
        body = await reader.readexactly(int(length[1])) if length else b""
        await asyncio.sleep(self.faults.latency)
        fault = self.faults.next()
        if fault == "refused":
            return self.lose(writer)
        if fault == "hung":
            await asyncio.sleep(30)
            return self.lose(writer)
        if fault in ("slow_down", "broken"):
            status = b"503 Slow Down" if fault == "slow_down" else b"500 Internal Server Error"
            writer.write(b"HTTP/1.1 " + status + b"\r\nContent-Length: %d\r\n\r\n" % len(SLOW_DOWN) + (b"" if head.startswith(b"HEAD") else SLOW_DOWN))
            await writer.drain()
            return True
        begin = self.loop.time() - self.faults.latency
        up_reader, up_writer = await asyncio.open_connection("127.0.0.1", self.upstream, limit=1 << 20)
        try:
            up_writer.write(re.sub(rb"(?i)\r\nconnection:[^\r]*", b"", head)[:-2] + b"Connection: close\r\n\r\n" + body)
            return await self.answer(head, up_reader, writer, fault)
        finally:
            up_writer.close()
            self.spans.append((begin, self.loop.time()))

    async def answer(self, request, up_reader, writer, fault):
        head = await up_reader.readuntil(b"\r\n\r\n")
        if self.faults.random.random() < self.faults.etag:
            head = re.sub(rb'(?i)(\r\netag: )"?[^\r"]*"?', rb'\1"0123456789abcdef0123456789abcdef"', head)
        head = re.sub(rb"(?i)\r\nconnection:[^\r]*", b"", head)
        length = re.search(rb"(?i)\r\ncontent-length: (\d+)", head)
        has_body = not request.startswith(b"HEAD") and b" 304 " not in head.split(b"\r\n")[0] and b" 204 " not in head.split(b"\r\n")[0]
        if fault == "lost":
            return self.lose(writer)
        if not length:  # until the connection ends
            head = head[:-2] + b"Connection: close\r\n\r\n"
        writer.write(head)
        left = int(length[1]) if length and has_body else None if has_body else 0
        stop = self.faults.random.randrange(left) if left and fault in ("cut", "reset") else None
        sent = 0
        while left is None or sent < left:
            data = await up_reader.read(64 << 10)
            if not data:
                return False
            if stop is not None and sent + len(data) > stop:
                writer.write(data[: stop - sent])
                await writer.drain()
                if fault == "reset":
                    self.lose(writer)
                return False
            writer.write(data)
            await writer.drain()
            sent += len(data)
            if self.faults.rate:
                await asyncio.sleep(len(data) / self.faults.rate)
        await writer.drain()
        return left is not None

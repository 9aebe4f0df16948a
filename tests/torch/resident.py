#!/usr/bin/env python3
"""Runs the scripts beside it in copies of a process that has imported torch, which takes longer than most of what they ask of it.

    resident.py start SOCKET PYTHON        starts the process, with PYTHON, unless it runs
    resident.py stop SOCKET                ends it
    resident.py run SOCKET SCRIPT ARG...   runs SCRIPT with this process's arguments, environment, folder and standard streams; ends as it does

A script that is killed, or whose run here is, takes the processes it has started with it. Linux only: the socket's peer is known by its descriptor.
"""
import array
import atexit
import os
import runpy
import selectors
import signal
import socket
import subprocess
import sys
import time
import traceback

STREAMS = 3


def connect(path):
    s = socket.socket(socket.AF_UNIX)
    os.chdir(os.path.dirname(path))  # a socket's path has at most 107 bytes
    s.connect(os.path.basename(path))
    return s


# ---- the process


def child(streams, folder, words, environment):
    """The script, as if it had been started by itself. Does not return."""
    os.setpgid(0, 0)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = words
    sys.path.insert(0, os.path.dirname(words[0]))
    sys.dont_write_bytecode = True
    code = 1
    try:
        runpy.run_path(words[0], run_name="__main__")
        code = 0
    except SystemExit as e:
        code = e.code if isinstance(e.code, int) else 0 if e.code is None else 1
        if isinstance(e.code, str):
            print(e.code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
    finally:
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def receive(connection):
    """(streams, [bytes]): the standard streams, then what separates by NUL: folder, number of words, words, environment."""
    data, ancillary, _, _ = connection.recvmsg(1 << 16, socket.CMSG_SPACE(STREAMS * 4))
    streams = array.array("i")
    for _, _, payload in ancillary:
        streams.frombytes(payload)
    if not data:  # `start` looks whether somebody listens
        return [], []
    size = int(data[:16])
    data = data[16:]
    while len(data) < size:
        data += connection.recv(1 << 16)
    return list(streams), data.decode("utf-8", "surrogateescape").split("\0")


def serve(path):
    import torch, torch.distributed.checkpoint, torch.distributed.tensor, numpy, safetensors  # noqa: F401,E401
    import torch.multiprocessing  # noqa: F401
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen(16)
    # One thread alone: a process with several must not be copied.
    events = selectors.DefaultSelector()
    events.register(listener, selectors.EVENT_READ)
    while True:
        for key, _ in events.select():
            if key.fileobj is not listener:
                if key.fd in events.get_map():  # a script and the other end may have ended at once
                    attend(events, *key.data)
                continue
            connection, _ = listener.accept()
            streams, fields = receive(connection)
            if not fields:
                connection.close()
                continue
            if len(fields) < 2:  # to be ended
                os.unlink(path)
                return
            pid = begin(connection, streams, fields)
            data = connection, pid, os.pidfd_open(pid)
            events.register(connection, selectors.EVENT_READ, data)
            events.register(data[2], selectors.EVENT_READ, data)


def begin(connection, streams, fields):
    count = int(fields[1])
    words, environment = fields[2 : 2 + count], fields[2 + count :]
    pid = os.fork()
    if pid == 0:
        child(streams, fields[0], words, dict(entry.split("=", 1) for entry in environment))
    os.setpgid(pid, pid)  # here too: whichever comes first
    for stream in streams:
        os.close(stream)
    return pid


def attend(events, connection, pid, pidfd):
    """The script has ended, or the other end has: tells it how, or ends the script."""
    ended, status = os.waitpid(pid, os.WNOHANG)
    try:
        if ended:
            connection.sendall(b"%d\n" % os.waitstatus_to_exitcode(status))
        else:
            os.killpg(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
    except OSError:  # the other end is gone
        pass
    for what in (connection, pidfd):
        events.unregister(what)
    connection.close()
    os.close(pidfd)


# ---- the other end


def start(path, python):
    try:
        connect(path).close()
        return
    except OSError:
        pass
    if os.path.exists(path):
        os.unlink(path)
    process = subprocess.Popen([python, "-B", os.path.abspath(__file__), "serve", path], start_new_session=True, stdin=subprocess.DEVNULL,
                               stdout=subprocess.DEVNULL, stderr=open(path + ".log", "wb"))
    for _ in range(1200):
        if os.path.exists(path):
            return
        if process.poll() is not None:
            sys.exit(f"{python} ended with {process.returncode}:\n" + open(path + ".log").read())
        time.sleep(0.1)
    process.kill()
    sys.exit(f"{python} has not imported torch in two minutes")


def send(connection, fields, streams=()):
    data = "\0".join(fields).encode("utf-8", "surrogateescape")
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", streams))] if streams else []
    connection.sendmsg([b"%016d" % len(data)], rights)
    connection.sendall(data)


def run(path, words):
    folder = os.getcwd()
    words[0] = os.path.abspath(words[0])
    connection = connect(path)
    send(connection, [folder, str(len(words)), *words, *(f"{k}={v}" for k, v in os.environ.items())], range(STREAMS))
    answer = b""
    while part := connection.recv(64):
        answer += part
    if not answer:
        sys.exit("the resident Python has ended")
    code = int(answer)
    sys.exit(code if code >= 0 else 128 - code)


if __name__ == "__main__":
    verb, path = sys.argv[1:3]
    path = os.path.abspath(path)
    if verb == "serve":
        serve(path)
    elif verb == "start":
        start(path, sys.argv[3])
    elif verb == "stop":
        try:
            send(connect(path), [""])
        except OSError:
            pass
    else:
        run(path, sys.argv[3:])

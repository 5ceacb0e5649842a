#!/usr/bin/env python3
"""What the program prints for shells and for man, tried in them: lines typed as a user types them, then Tab.

usage: scripts/test_shells.py bash|zsh|fish|man [PROGRAM]     (build/windrow)

The exit code is 77 where that shell (or man) is not installed.
"""
import os
import pathlib
import pty
import re
import select
import shutil
import subprocess
import sys
import tempfile
import time

# What is typed before Tab, and the word that must stand at the end of the line then.
COMPLETED = (
    ("windrow tra", "train"),
    ("windrow train fas", "fashion"),
    ("windrow train fashion --epo", "--epochs"),
    ("windrow train fashion --net cnn --epo", "--epochs"),
    ("windrow train fashion --optim rm", "rmsprop"),
    ("windrow train fashion --hel", "--help"),
    ("windrow help pred", "predict"),
    ("windrow help train fas", "fashion"),
    ("windrow completion zs", "zsh"),
    ("windrow profile ben", "bench"),
    ("windrow profile bench --lis", "--list"),
    ("windrow profile train fas", "fashion"),
    ("windrow rules expl", "explain"),
    ("windrow eval pla", "plain.safetensors"),
    ("windrow eval wi", r"with\ space.safetensors"),
    ("windrow eval with\\ sp", r"with\ space.safetensors"),
    ("windrow eval plain.safetensors --js", "--json"),
    ("windrow train fashion --save pla", "plain.safetensors"),
    ("windrow train fashion --data fo", "folder/"),
)
# Lines that nothing completes: a number is wanted, or there is no such word.
LEFT_ALONE = ("windrow nosuch", "windrow train fashion --epochs pla", "windrow train fashion --nosuch", "windrow train pla")


class Terminal:
    """A shell on a terminal of its own; `ask` is the key that prints the line as it stands between << and >>."""

    def __init__(self, command, folder, environment):
        self.process, self.shell = pty.fork()
        if self.process == 0:
            os.chdir(folder)
            os.execvpe(command[0], command, environment)
        self.seen = ""

    def until(self, pattern, seconds=20):
        end = time.monotonic() + seconds
        while True:
            found = re.search(pattern, self.seen)
            if found:
                self.seen = self.seen[found.end():]
                return found
            if not select.select([self.shell], [], [], max(0, end - time.monotonic()))[0]:
                raise AssertionError(f"no {pattern!r} in {self.seen!r}")
            self.seen += os.read(self.shell, 65536).decode(errors="replace")

    def type(self, text):
        os.write(self.shell, text.encode())

    def line_after_tab(self, typed):
        self.type("\x15" + typed + "\t\x07")  # Ctrl-U: an empty line; Ctrl-G is bound to what prints it
        return self.until(r"<<(.*?)>>").group(1)

    def close(self):
        os.close(self.shell)
        os.waitpid(self.process, 0)


def lines_of(terminal, set_up):
    for line in set_up:
        terminal.type(line + "\n")
    terminal.type("echo rea''dy\n")
    terminal.until("ready")
    return terminal.line_after_tab


def bash(program, folder):
    script = folder / "completion.bash"
    script.write_text(program("completion", "bash"))
    terminal = Terminal(["bash", "--norc", "--noprofile", "-i"], folder / "work", {**os.environ, "TERM": "dumb", "PS1": ""})
    ask = lines_of(terminal, ["set +o history; bind 'set enable-bracketed-paste off'; bind 'set bell-style none'",
                              r"""bind -x '"\C-g": printf "<<%s>>\n" "$READLINE_LINE"'""", f"source '{script}'"])
    return terminal, ask


def zsh(program, folder):
    """By way of fpath, as it is installed: zsh loads the file at the first Tab."""
    (folder / "functions").mkdir()
    (folder / "functions" / "_windrow").write_text(program("completion", "zsh"))
    terminal = Terminal(["zsh", "-f", "-i"], folder / "work", {**os.environ, "TERM": "dumb", "ZDOTDIR": os.fspath(folder)})
    ask = lines_of(terminal, ["PROMPT= RPROMPT=; unsetopt zle_bracketed_paste prompt_cr prompt_sp beep 2>/dev/null",
                              f"fpath=({folder}/functions $fpath); autoload -Uz compinit; compinit -u -d {folder}/dump",
                              'show() { print -r -- "<<$BUFFER>>" }; zle -N show; bindkey "^G" show; bindkey "^U" kill-whole-line'])
    return terminal, ask


def fish(program, folder):
    """fish answers by itself what it would offer: `complete -C LINE`. One offer is what Tab would write."""
    script = folder / "windrow.fish"
    script.write_text(program("completion", "fish"))

    def ask(typed):
        done = subprocess.run(["fish", "--no-config", "-c", f"source '{script}'; complete -C $argv[1]", typed], text=True,
                              capture_output=True, timeout=60, cwd=folder / "work",
                              env={**os.environ, "HOME": os.fspath(folder), "XDG_DATA_HOME": os.fspath(folder)})
        assert not done.stderr, done.stderr
        offers = [line.split("\t")[0] for line in done.stdout.splitlines()]
        if len(offers) != 1:
            return typed
        # A name with a space is offered bare; fish escapes it where it writes it.
        return typed[:len(typed) - len(re.search(r"(\\ |\S)*$", typed).group())] + offers[0].replace(" ", "\\ ")

    return None, ask


def completes(shell, program, folder):
    work = folder / "work"
    (work / "folder").mkdir(parents=True)
    for name in ("plain.safetensors", "with space.safetensors", "folder.txt"):
        (work / name).write_text("")
    terminal, ask = shell(program, folder)
    failed = []
    for typed, wanted in COMPLETED:
        before = typed[:len(typed) - len(re.search(r"(\\ |\S)*$", typed).group())]
        line = ask(typed)
        if line.rstrip(" ") != before + wanted:
            failed.append(f"{typed!r} became {line!r}, not {before + wanted!r}")
    for typed in LEFT_ALONE:
        line = ask(typed)
        if line != typed:
            failed.append(f"{typed!r} became {line!r}")
    if terminal:
        terminal.close()
    assert not failed, "\n".join(failed)


def options_and_commands(program, *path):
    """What --help lists, by command: (words that lead there, options)."""
    text = program(*path, "--help")
    yield path, re.findall(r"^  (?:-\w,)?(--[a-z][a-z0-9-]*)", text, re.MULTILINE)
    listed = re.search(r"^Subcommands:\n((?:  .*\n)+)", text, re.MULTILINE)
    for name in re.findall(r"^  (\S+)", listed.group(1), re.MULTILINE) if listed else ():
        if name == "help":  # its own help is the program's
            yield (*path, name), ()
            continue
        yield from options_and_commands(program, *path, name)


def man(program, folder):
    """man has nothing to complain of, and the page names every command and option that the help does."""
    page = folder / "windrow.1"
    page.write_text(program("manual"))
    done = subprocess.run(["man", "--warnings=w", "-l", page], capture_output=True, text=True, timeout=60,
                          env={**os.environ, "MANWIDTH": "160", "MANPAGER": "cat", "LC_ALL": "C.UTF-8", "MAN_KEEP_FORMATTING": ""})
    assert done.returncode == 0 and not done.stderr, done.stderr
    text = re.sub(".\b|\x1b\\[[0-9;]*m", "", done.stdout)
    if shutil.which("lexgrog"):  # what `man -k` knows of a page
        name = subprocess.run(["lexgrog", page], capture_output=True, text=True).stdout
        assert "windrow - train" in name, name
    sections = {m.group(1): m.group(2) for m in re.finditer(r"^   (windrow \S.*)\n((?:(?!   \S|\S).*\n)*)", text, re.MULTILINE)}
    count = 0
    for path, options in options_and_commands(program):
        if not path:
            continue
        section = sections.get("windrow " + " ".join(path))
        assert section is not None, f"no section about windrow {' '.join(path)} among {sorted(sections)}"
        for option in options:
            count += 1
            assert option == "--help" or re.search(rf"^ +{option}\b", section, re.MULTILINE), (path, option, section)
    assert count > 100, count
    assert re.search(r"^ +windrow train COMMAND", sections["windrow train"], re.MULTILINE), sections["windrow train"]
    for heading in ("NAME", "SYNOPSIS", "DESCRIPTION", "COMMANDS", "EXIT STATUS"):
        assert re.search(rf"^{heading}$", text, re.MULTILINE), heading


def main():
    name = sys.argv[1]
    windrow = os.path.abspath(sys.argv[2] if len(sys.argv) > 2 else "build/windrow")
    if not shutil.which(name):
        print(f"{name} is not installed here: nothing was tried")
        return 77

    def program(*words):
        return subprocess.run([windrow, *words], check=True, capture_output=True, text=True, timeout=60).stdout

    with tempfile.TemporaryDirectory(prefix="windrow-shell-") as folder:
        folder = pathlib.Path(folder)
        try:
            if name == "man":
                man(program, folder)
            else:
                completes({"bash": bash, "zsh": zsh, "fish": fish}[name], program, folder)
        except AssertionError as error:
            print(f"{name}: {error}")
            return 1
    print(f"{name}: as it should be")
    return 0


if __name__ == "__main__":
    sys.exit(main())

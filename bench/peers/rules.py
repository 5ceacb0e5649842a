#!/usr/bin/env python3
"""Recursive rules beside clingo, nemo and pyDatalog: the same graphs, one after the other, best of some runs.

usage: rules.py WINDROW [--cpu] [--seconds S] [--largest N] [--rules NAME...] [--inside FOLDER] [--markdown FILE]
       (make bench-rules installs the peers)
       rules.py WINDROW --examples [--cpu]                  times examples/rules instead
Windrow's time is that of its whole process, from reading the file to the count of tuples, less that of a process which only
says its version; a peer's is that of reading and solving, without starting Python: the mean of a second's runs where they are short.
--inside build/python also measures Windrow so, by its Python package, with all answers as rows of text. A peer that takes longer than a tenth of the
limit at one size is left out at larger ones. --cpu measures processor time, of all threads together, instead of that which
passes: for a computer that does other things besides. How many tuples there are is computed here, by other means; all must find as many."""
import argparse
import multiprocessing
import pathlib
import random
import re
import resource
import subprocess
import sys
import tempfile
import time

RULES = {
    "closure": ("T(x, y) :- E(x, y).\nT(x, z) :- T(x, y), E(y, z).\n", "t(X,Y) :- e(X,Y). t(X,Z) :- t(X,Y), e(Y,Z)."),
    "ancestor": ("T(x, y) :- E(x, y).\nT(x, z) :- E(x, y), T(y, z).\n", "t(X,Y) :- e(X,Y). t(X,Z) :- e(X,Y), t(Y,Z)."),
    "same generation": ("T(x, y) :- E(p, x), E(p, y), x != y.\nT(x, y) :- E(a, x), T(a, b), E(b, y).\n",
                        "t(X,Y) :- e(P,X), e(P,Y), X != Y. t(X,Y) :- e(A,X), t(A,B), e(B,Y)."),
}


def chain(n):
    return [(i, i + 1) for i in range(n)]


def tree(n):
    return [((i - 1) // 2, i) for i in range(1, n)]


def scattered(n):
    r = random.Random(n)
    return sorted({(r.randrange(n), r.randrange(n)) for _ in range(2 * n)})


LIMIT = 600  # seconds of Windrow
MOST_ROWS = 1_000_000  # of text, in Python
INSIDE = "windrow in Python"
MEASURABLE = 1e-3  # what a process takes beyond its start, which itself varies by as much

clock = time.perf_counter  # of this process; --cpu: time.process_time
children = time.perf_counter  # of those that it starts; --cpu: children_time


def children_time():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


CASES = [("closure", "chain", chain, n) for n in (100, 1000, 3000, 10000)] + \
        [("closure", "random graph", scattered, n) for n in (100, 1000, 3000, 10000)] + \
        [("ancestor", "chain", chain, n) for n in (100, 1000, 3000, 10000)] + \
        [("ancestor", "random graph", scattered, n) for n in (100, 1000, 3000, 10000)] + \
        [("ancestor", "tree", tree, n) for n in (100, 1000, 10000)] + \
        [("same generation", "chain", chain, n) for n in (100, 1000, 10000)] + \
        [("same generation", "tree", tree, n) for n in (100, 1000, 4000, 10000)] + \
        [("same generation", "random graph", scattered, n) for n in (100, 1000, 3000, 10000)]


def pairs_of_a_closure(edges):
    """How many pairs are joined by a way: what a node reaches is a number with a bit a node, one for all nodes of a cycle."""
    after, before = {}, {}
    for a, b in edges:
        after.setdefault(a, []).append(b)
        before.setdefault(b, []).append(a)
    nodes = set(after) | set(before)

    def walk(root, ways, seen, left):  # appends to `left` what can be reached, each node after those behind it
        stack = [(root, iter(ways.get(root, ())))]
        seen.add(root)
        while stack:
            node, more = stack[-1]
            to = next((w for w in more if w not in seen), None)
            if to is None:
                left.append(stack.pop()[0])
            else:
                seen.add(to)
                stack.append((to, iter(ways.get(to, ()))))

    order, seen = [], set()
    for node in nodes:
        if node not in seen:
            walk(node, after, seen, order)
    cycles, seen = [], set()
    for node in reversed(order):
        if node not in seen:
            cycles.append([])
            walk(node, before, seen, cycles[-1])
    reached, pairs = {}, 0
    for cycle in reversed(cycles):  # those that others lead to come first
        inside, bits = set(cycle), 0
        for node in cycle:
            for to in after.get(node, ()):
                bits |= 1 << to | (0 if to in inside else reached[to])
        for node in cycle:
            reached[node] = bits
        pairs += len(cycle) * bin(bits).count("1")
    return pairs


def pairs_of_a_generation(edges):
    """Pairs with ways of equal length from one node to both that part at once. What shares a generation with a node is a
    number with a bit a node; a pair is passed on to the children of its two once, when it is found."""
    children, below = {}, {}
    for a, b in edges:
        children.setdefault(a, []).append(b)
        below[a] = below.get(a, 0) | 1 << b
    found, fresh = {}, {}
    for a, many in children.items():
        for b in many:
            fresh[b] = fresh.get(b, 0) | below[a] & ~(1 << b)
    while fresh:
        found_now, fresh = fresh, {}
        for x, bits in found_now.items():
            found[x] = found.get(x, 0) | bits
        for x, bits in found_now.items():
            if x not in children:
                continue
            passed = 0
            for at, digit in enumerate(reversed(bin(bits)[2:])):
                if digit == "1":
                    passed |= below.get(at, 0)
            for child in children[x]:
                more = passed & ~found.get(child, 0)
                if more:
                    fresh[child] = fresh.get(child, 0) | more
    return sum(bin(bits).count("1") for bits in found.values())


def windrow(program, rules, edges, tuples, limit):
    with tempfile.TemporaryDirectory() as folder:
        facts = pathlib.Path(folder) / "e.tsv"
        facts.write_text("".join(f"{a}\t{b}\n" for a, b in edges))
        text = pathlib.Path(folder) / "p.wr"
        text.write_text(f"domain V.\nrel E(V, V) input.\n{rules[0]}All() :- count(x, y: T(x, y)) = {tuples}.\n?- All().\n")
        start = children()
        said = subprocess.run([program, "rules", "run", str(text), "--data", f"E={facts}", "--format", "tsv"], check=True,
                              capture_output=True, text=True, timeout=limit)
        seconds = children() - start
        if said.stdout != "yes\n":
            raise SystemExit(f"windrow does not find {tuples} tuples: {rules[0]}")
        return seconds


def started(program):
    def once():
        begin = children()
        subprocess.run([program, "--version"], check=True, capture_output=True)
        return children() - begin
    return min(once() for _ in range(20))


def clingo_peer(rules, edges, limit):
    import clingo
    start = clock()
    control = clingo.Control(["--warn=none"])
    control.add("base", [], " ".join(f"e({a},{b})." for a, b in edges) + rules[1])
    control.ground([("base", [])])
    control.solve()
    seconds = clock() - start
    return seconds, sum(1 for atom in control.symbolic_atoms.by_signature("t", 2))


def inside_python(folder):
    """Windrow as a peer is measured: the facts are there as Python has them, the answers are rows."""
    def run(rules, edges, limit):
        sys.path.insert(0, folder)
        import windrow
        start = clock()
        program = windrow.rules.parse("domain V.\nrel E(V, V) input.\n" + rules[0])
        program.add("E", [(str(a), str(b)) for a, b in edges])
        answers = program.query("T(x, y)")
        seconds = clock() - start
        return seconds, len(answers.rows)
    return run


def nemo_peer(rules, edges, limit):
    import nmo_python
    start = clock()
    text = "".join(f"e({a},{b}).\n" for a, b in edges)
    for rule in rules[1].split(". "):
        text += rule.rstrip(".").replace("X", "?X").replace("Y", "?Y").replace("Z", "?Z").replace("P", "?P") \
            .replace("A", "?A").replace("B", "?B") + " .\n"
    engine = nmo_python.NemoEngine(nmo_python.load_string(text))
    engine.reason()
    seconds = clock() - start
    return seconds, sum(1 for _ in engine.result("t"))


def pydatalog_peer(rules, edges, limit):
    from pyDatalog import pyDatalog
    pyDatalog.clear()
    start = clock()
    for a, b in edges:
        pyDatalog.assert_fact("e", a, b)
    pyDatalog.load("\n".join(r.rstrip(".").replace(":-", "<=").replace(",", " & ") if ":-" in r else "" for r in rules[1].split(". "))
                   .replace("(X & Y)", "(X,Y)").replace("(X & Z)", "(X,Z)").replace("(Y & Z)", "(Y,Z)").replace("(P & X)", "(P,X)")
                   .replace("(P & Y)", "(P,Y)").replace("(A & X)", "(A,X)").replace("(A & B)", "(A,B)").replace("(B & Y)", "(B,Y)")
                   .replace("X != Y", "(X != Y)"))
    answer = pyDatalog.ask("t(X,Y)")
    seconds = clock() - start
    return seconds, len(answer.answers) if answer else 0


def examples(program):
    """Each program of examples/rules, the whole process: read, checked, traced, compiled and run; and without its start. Of
    those that learn also what the step with its gradients takes to compile."""
    start = started(program)
    print(f"a process that says its version: {start * 1e3:.1f} ms\n| program | ms | ms without the start | ms to compile the step that learns |\n|---|---|---|---|")
    for path in sorted((pathlib.Path(__file__).parents[2] / "examples/rules").glob("*.wr")):
        def once():
            begin = children()
            subprocess.run([program, "rules", "run", str(path)], check=True, capture_output=True)
            return children() - begin

        def compiled():
            said = subprocess.run([program, "rules", "train", str(path), "--steps", "1"], check=True, capture_output=True, text=True)
            return float(re.search(r"of which ([0-9.]+) s to compile", said.stdout)[1]) * 1e3

        best = min(once() for _ in range(10))
        step = f"{min(compiled() for _ in range(5)):.0f}" if "\n@minimize" in path.read_text() else ""
        print(f"| {path.name} | {best * 1e3:.1f} | {(best - start) * 1e3:.1f} | {step} |", flush=True)


def limited(run, rules, edges, limit, by_cpu):
    """In a process of its own, which is ended at the limit."""
    def child(to):
        if by_cpu:
            resource.setrlimit(resource.RLIMIT_CPU, (int(limit) + 1, int(limit) + 2))
        try:
            seconds, found = run(rules, edges, limit)
            begin, more = time.perf_counter(), []
            while seconds < 0.5 and time.perf_counter() - begin < 1:  # the mean: processor time may be counted in ticks
                more.append(run(rules, edges, limit)[0])
            to.send((sum(more) / len(more) if more else seconds, found))
        except Exception as error:  # a peer that is missing or gives up is a cell of the table, not its end
            to.send(type(error).__name__)

    of, to = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.get_context("fork").Process(target=child, args=(to,))
    process.start()
    to.close()
    try:
        if of.poll(limit * (10 if by_cpu else 1)):
            return of.recv()
    except EOFError:  # it has used up its time
        pass
    finally:
        process.kill()
        process.join()
    return f"over {limit:g} s"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("windrow")
    parser.add_argument("--seconds", type=float, default=20, help="a peer's limit")
    parser.add_argument("--largest", type=int, help="leave out larger graphs")
    parser.add_argument("--rules", nargs="+", choices=list(RULES), help="these alone")
    parser.add_argument("--inside", metavar="FOLDER", help="Windrow's Python package as well, from there")
    parser.add_argument("--markdown", help="write the table there")
    parser.add_argument("--examples", action="store_true", help="time examples/rules instead")
    parser.add_argument("--cpu", action="store_true", help="processor time instead of time that passes")
    options = parser.parse_args()
    if options.cpu:
        global clock, children
        clock, children = time.process_time, children_time
    if options.examples:
        return examples(options.windrow)
    peers = {"clingo": clingo_peer, "nemo": nemo_peer, "pyDatalog": pydatalog_peer}
    if options.inside:
        peers = {INSIDE: inside_python(options.inside)} | peers
    slow = set()
    start = started(options.windrow)
    print(f"a process that says its version: {start * 1e3:.1f} ms")
    lines = ["| rules | graph | tuples | windrow ms | " + " | ".join(f"{p} ms" for p in peers) + " |",
             "|---|---|---|---|" + "---|" * len(peers)]
    for name, graph, make, n in CASES:
        if (options.largest and n > options.largest) or (options.rules and name not in options.rules):
            continue
        edges = make(n)
        tuples = pairs_of_a_generation(edges) if name == "same generation" else pairs_of_a_closure(edges)
        try:
            best = min(windrow(options.windrow, RULES[name], edges, tuples, LIMIT) for _ in range(5 if n <= 1000 else 1))
        except subprocess.TimeoutExpired:  # on a computer that does other things
            lines.append(f"| {name} | {graph} of {n} | | over {LIMIT} s |" + " |" * len(peers))
            print(lines[-1], flush=True)
            continue
        best -= start
        cells = []
        for peer, run in peers.items():
            if (peer, name, graph) in slow or (peer == INSIDE and tuples > MOST_ROWS):
                cells.append("")
                continue
            answer = limited(run, RULES[name], edges, options.seconds, options.cpu)
            if isinstance(answer, str):
                cells.append(answer)
                slow.add((peer, name, graph))
                continue
            seconds, found = answer
            if found != tuples:
                raise SystemExit(f"{peer} finds {found} tuples, there are {tuples}: {name}, {graph} of {n}")
            ratio = f" ({seconds / best:.1f}x)" if best >= MEASURABLE else ""
            cells.append(f"{seconds * 1e3:.1f}{ratio}")
            if seconds > options.seconds / 10:
                slow.add((peer, name, graph))
        shown = f"{best * 1e3:.1f}" if best >= MEASURABLE else f"under {MEASURABLE * 1e3:g}"
        lines.append(f"| {name} | {graph} of {n} | {tuples} | {shown} | " + " | ".join(cells) + " |")
        print(lines[-1], flush=True)
    if options.markdown:
        pathlib.Path(options.markdown).write_text("\n".join(lines) + "\n")


main()

#!/usr/bin/env python3
"""Random stratified programs of rules, answered by clingo.

usage: rules_clingo.py --golden FILE [COUNT]     writes programs and clingo's answers (for tests/golden/rules_clingo.jsonl)
       rules_clingo.py --compare WINDROW [COUNT] answers each by the program `windrow rules` too, and compares (1000)
Needs the package clingo; make rules-clingo installs it into bench/peers/venv."""
import json
import pathlib
import random
import subprocess
import sys
import tempfile

import clingo


class Writer:
    """One program, in both notations."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.ours, self.theirs = [], []
        self.arity = {}
        self.constants = [f"C{i}" for i in range(self.random.randint(2, 6))]

    def say(self, ours, theirs):
        self.ours.append(ours)
        self.theirs.append(theirs)

    def atom(self, name, terms):
        ours = f"{name}({', '.join(terms)})"
        theirs = f"{name.lower()}({','.join(t.upper() if t[0].islower() else t if t == '_' else t.lower() for t in terms)})"
        return ours, theirs

    def facts(self):
        r = self.random
        for i in range(r.randint(2, 3)):
            name = f"E{i}"
            self.arity[name] = r.randint(1, 3)
            for _ in range(r.randint(1, 8)):
                a = self.atom(name, [r.choice(self.constants) for _ in range(self.arity[name])])
                self.say(f"{a[0]}.", f"{a[1]}.")

    def term(self, variables, constants=0.1):
        r = self.random
        return r.choice(self.constants) if r.random() < constants else r.choice(variables)

    def rule(self, name, below, same):
        r = self.random
        variables = [f"x{i}" for i in range(r.randint(1, 4))]
        body, bound = [], set()
        for _ in range(r.randint(1, 3)):
            p = r.choice(below + same) if same and r.random() < 0.5 else r.choice(below)
            terms = ["_" if r.random() < 0.08 else self.term(variables) for _ in range(self.arity[p])]
            bound.update(t for t in terms if t[0].islower())
            body.append(self.atom(p, terms))
        known = sorted(bound)
        if known and r.random() < 0.45:
            p = r.choice(below)
            ours, theirs = self.atom(p, [self.term(known, 0.15) for _ in range(self.arity[p])])
            body.append((f"not {ours}", f"not {theirs}"))
        if len(known) > 1 and r.random() < 0.3:
            a, b = r.sample(known, 2)
            body.append((f"{a} != {b}", f"{a.upper()} != {b.upper()}"))
        r.shuffle(body)
        head = self.atom(name, [self.term(known, 0.1) if known else r.choice(self.constants) for _ in range(self.arity[name])])
        self.say(f"{head[0]} :- {', '.join(b[0] for b in body)}.", f"{head[1]} :- {', '.join(b[1] for b in body)}.")

    def make(self):
        r = self.random
        self.facts()
        below = list(self.arity)
        derived = []
        for layer in range(r.randint(1, 3)):
            same = [f"P{layer}{i}" for i in range(r.randint(1, 2))]
            for name in same:
                self.arity[name] = r.randint(1, 3)
            for name in same:
                for _ in range(r.randint(1, 3)):
                    self.rule(name, below, same)
            below += same
            derived += same
        # All arguments have one domain: a universe that every relation's places belong to.
        text = "domain U = {" + ", ".join(self.constants) + "}.\n"
        text += "".join(f"rel {n}({', '.join(['U'] * k)}).\n" for n, k in self.arity.items())
        return text + "\n".join(self.ours) + "\n", "\n".join(self.theirs) + "\n", {n: self.arity[n] for n in derived}


def answers(text, derived):
    control = clingo.Control(["--warn=none"])
    control.add("base", [], text)
    control.ground([("base", [])])
    found = {name: [] for name in derived}
    by_name = {name.lower(): name for name in derived}

    def keep(model):
        for symbol in model.symbols(atoms=True):
            if symbol.name in by_name:
                found[by_name[symbol.name]].append([str(a).upper() for a in symbol.arguments])

    control.solve(on_model=keep)
    return {name: sorted(rows) for name, rows in found.items()}


def windrow(program, text, derived, seed):
    queries = "".join(f"?- {name}({', '.join(f'v{i}' for i in range(n))}).\n" for name, n in derived.items())
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "p.wr"
        path.write_text(text + queries)
        done = subprocess.run([program, "rules", "run", str(path), "--format", "json"], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"seed {seed}: {done.stderr}\n{text}")
    return {a["query"].split("(")[0]: sorted(a["rows"]) for a in map(json.loads, done.stdout.splitlines())}


def main():
    mode, target = sys.argv[1], sys.argv[2]
    count = int(sys.argv[3]) if len(sys.argv) > 3 else 1000
    lines = []
    for seed in range(count):
        ours, theirs, derived = Writer(seed).make()
        expected = answers(theirs, derived)
        if mode == "--golden":
            lines.append(json.dumps({"program": ours, "relations": expected}, separators=(",", ":")))
            continue
        found = windrow(target, ours, derived, seed)
        for name in derived:
            if found[name] != expected[name]:
                sys.exit(f"seed {seed}: {name} differs\n{ours}clingo: {expected[name]}\nwindrow: {found[name]}")
    if mode == "--golden":
        pathlib.Path(target).write_text("\n".join(lines) + "\n")
        print(f"{target}: {count} programs")
    else:
        print(f"{count} programs: the same answers as clingo's")


main()

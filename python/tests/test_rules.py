"""windrow.rules: programs are parsed, solved, queried, explained, traced into steps and learned."""
import copy

import numpy as np
import pytest
import windrow as wr

KIN = """
domain Person.
rel Parent(Person, Person).
Parent(Ann, Bob). Parent(Bob, Cid). Parent(Cid, Dora).
Ancestor(x, y) :- Parent(x, y).
Ancestor(x, z) :- Parent(x, y), Ancestor(y, z).
?- Ancestor(Ann, y).
"""


def test_queries_are_answered():
    kin = wr.rules.parse(KIN, "kin.wr")
    answers = kin.query("Ancestor(Ann, y)")
    assert answers.columns == ["y"] and answers.rows == [("Bob",), ("Cid",), ("Dora",)] == list(answers)
    assert len(answers) == 3 and not answers.values and "Dora" in str(answers)
    assert kin.query("Ancestor(Ann, Dora)") and not kin.query("Ancestor(Dora, Ann)")
    facts = wr.rules.SolveFacts()
    assert [a.query for a in kin.run(facts=facts)] == ["Ancestor(Ann, y)"]
    assert facts.iterations > 0 and facts.rules
    assert len(kin.relation("Ancestor")) == 6
    assert set(kin.names) >= {"Parent", "Ancestor"} and kin.semantics == "boolean"
    assert answers.tsv().splitlines()[0] == "y" and "Dora" in answers.json()


def test_facts_come_later_too(tmp_path):
    kin = wr.rules.Program(KIN)
    other = copy.copy(kin)
    kin.add("Parent", [("Dora", "Eve")])
    assert ("Eve",) in kin.query("Ancestor(Ann, y)").rows
    assert ("Eve",) not in other.query("Ancestor(Ann, y)").rows
    (tmp_path / "more.tsv").write_text("Eve\tFay\n")
    kin.load("Parent", str(tmp_path / "more.tsv"))
    assert ("Fay",) in kin.query("Ancestor(Ann, y)").rows


def test_rows_are_text_and_whole_numbers():
    graph = wr.rules.parse("domain V.\nrel E(V, V) input.\nT(x, y) :- E(x, y).\nT(x, z) :- T(x, y), E(y, z).\n")
    graph.add("E", [(1, 2), ("2", np.int64(3))])
    graph.add("E", np.array([[3, 4]]))
    assert graph.query("T(1, y)").rows == [("2",), ("3",), ("4",)]
    for rows, what in [([(1, 2.5)], r"row 1: 2.5 is no constant"), ([(1, 2), "ab"], r"row 2: a text"),
                       ([(1, "\udcff")], "row 1: .* is no constant"), ([(1, None)], "None is no constant"), (3, "not iterable")]:
        with pytest.raises(TypeError, match=what):
            graph.add("E", rows)
    with pytest.raises(wr.Error, match="3 columns; E has 2 arguments"):
        graph.add("E", [(1, 2, 3)])
    assert len(graph.query("T(1, y)")) == 3  # what was refused has left nothing behind


def test_relations_as_arrays():
    kin = wr.rules.parse(KIN)
    ancestor = kin.array("Ancestor").numpy()
    assert ancestor.dtype == bool and ancestor.sum() == 6
    np.testing.assert_array_equal(ancestor, np.triu(np.ones((4, 4), bool), 1))
    weighted = kin.array("Ancestor", semantics="product").numpy()
    assert weighted.dtype == np.float64


def test_what_holds_is_explained():
    text = wr.rules.parse(KIN).explain("Ancestor(Ann, Cid)")
    assert "Parent(Ann, Bob)" in text and "Parent(Bob, Cid)" in text


def test_mistakes_name_the_place():
    with pytest.raises(wr.Error, match=r"kin.wr:\d+:\d+: .*Parnet.*did you mean"):
        wr.rules.parse(KIN + "Old(x) :- Parnet(x, y).", "kin.wr")
    with pytest.raises(ValueError, match="'fuzzy' is not boolean"):
        wr.rules.parse(KIN).query("Ancestor(x, y)", semantics="fuzzy")


def test_a_relation_is_traced_into_a_step_with_inputs():
    program = wr.rules.parse("domain N = 3.\nrel E(N, N) input.\nP(x, z) :- E(x, y), E(y, z).\n")

    @wr.compile
    def paths(e):
        p = program.trace("P", {"E": e}, semantics="product")
        return p, wr.grad(p.sum(), e)

    e = np.random.default_rng(0).uniform(size=(3, 3)).astype(np.float32)
    expected = lambda e: 1 - (1 - e[:, :, None] * e[None, :, :]).prod(1)  # noqa: E731
    p, gradient = paths(e)
    np.testing.assert_allclose(p.numpy(), expected(e), rtol=1e-5)
    step = np.zeros((3, 3))
    step[1, 2] = 1e-6
    slope = (expected(e.astype(float) + step) - expected(e.astype(float) - step)).sum() / 2e-6
    assert gradient.numpy()[1, 2] == pytest.approx(slope, rel=1e-4)


LEARN = """
domain N = 4.
tensor X[N] input.
tensor W[N] learn.
tensor Y input.
Out = W[i] X[i].
Loss = square(Out - Y).
@minimize Loss(lr=0.1, steps=200).
"""


def test_programs_learn_and_are_saved(tmp_path):
    program = wr.rules.parse(LEARN)
    program.set("X", np.array([1.0, 2, 3, 4]))
    program.set("Y", np.array(5.0))
    seen = []
    report = program.train(progress=lambda step, loss: seen.append((step, loss)), every=50)
    assert len(report.losses) == 200 and report.losses[-1] < 1e-3 < report.losses[0]
    assert len(seen) >= 4 and len(program.parameters()) == 1
    gradient = program.gradient("Loss", ["W"])["W"].numpy()
    assert np.abs(gradient).max() < 1
    program.save(str(tmp_path / "w.safetensors"))
    again = wr.rules.parse(LEARN)
    again.set("X", np.array([1.0, 2, 3, 4]))
    again.set("Y", np.array(5.0))
    again.restore(str(tmp_path / "w.safetensors"))
    np.testing.assert_allclose(again.array("Out").numpy(), 5.0, atol=0.05)
    grown = wr.rules.parse(LEARN + "Twice = 2 Out.\n")
    grown.set("X", np.array([1.0, 2, 3, 4]))
    assert grown.adopt_learned(program) == []
    np.testing.assert_allclose(grown.array("Twice").numpy(), 10.0, atol=0.1)
    assert wr.rules.parse(LEARN.replace("N = 4", "N = 5")).adopt_learned(program) == ["W"]


def test_training_ends_when_it_is_told_to_and_errors_come_through():
    program = wr.rules.parse(LEARN)
    program.set("X", np.ones(4))
    program.set("Y", np.array(1.0))
    assert len(program.train(progress=lambda step, loss: False, every=10).losses) <= 11

    def stop(step, loss):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        program.train(progress=stop, every=1)


def test_text_in_the_standard_layout():
    assert wr.rules.format_text("P(x):-Q(x,y).").strip() == "P(x) :- Q(x, y)."

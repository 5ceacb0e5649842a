// The language of rules: parsing, formatting, and what is refused, with the words in which it is refused.
#include <cmath>
#include <ctime>

#include "temporary_files.h"
#include "windrow/rules.h"

namespace wr::rules {
namespace {

std::string refused(const std::string& text) {
  return error_of([&] { Program::parse(text, "p.wr"); });
}
void expect_refused(const std::string& text, const std::string& message) { EXPECT_EQ(refused(text), message) << text; }

TEST(RulesLanguage, FormattingIsStable) {
  const std::string text =
      "# family\n"
      "domain Person = {Ann, Bob, \"de Vries\"}.\n"
      "domain N = 10.\n"
      "domain Place.\n"
      "rel Parent(Person, Person) input.\n"
      "tensor W[N, N] learn.\n"
      "tensor Bias learn.\n"
      "@semantics product.\n"
      "@fixpoint(100, 1e-06).\n"
      "@seed 7.\n"
      "@minimize Loss(lr=0.1, steps=200).\n"
      "\n"
      "Parent(Ann, Bob).  # the eldest\n"
      "0.3 :: Parent(Bob, \"de Vries\").\n"
      "Ancestor(x, y) :- Parent(x, y).\n"
      "0.9 :: Ancestor(x, z) :- Parent(x, y), Ancestor(y, z) @godel T=0.5.\n"
      "learn :: Good(x) :- ?r(x, y), not Bad(y), x != y.\n"
      "Bad(x) :- Parent(x, _), (Parent(_, x); x = Ann).\n"
      "Full(x) :- Parent(x, _), forall(y: Parent(x, y) -> Parent(y, x)), count(y: Parent(x, y)) >= 2.\n"
      "Y[i] = sig(W[i, j] * X[j] + Bias).\n"
      "Z[i, j.] = softmax(X[i] * X[j] / sqrt(4)) - -X[i]^2.\n"
      "H[i, *t+1] = tanh(H[i, *t]).\n"
      "P[x/2] max= F[x].\n"
      "C[x] = F[x+dx] * K[dx].\n"
      "S = sum(i: exp(X[i])) + F[0] + F[x-1] * G[0:2].\n"
      "X[i] = 1. F[i] = i. K[i] = 2. G[i] = 1. Loss = S.\n"
      "?- Ancestor(Ann, y), y != Bob.\n"
      "constraint 0.5 :: forall(x, y: Parent(x, y) -> Ancestor(x, y)).\n";
  const std::string once = format_text(text);
  EXPECT_EQ(format_text(once), once);
  // Only the line with several statements is laid out anew.
  std::string expected = text;
  const std::string several = "X[i] = 1. F[i] = i. K[i] = 2. G[i] = 1. Loss = S.\n";
  expected.replace(expected.find(several), several.size(), "X[i] = 1.\nF[i] = i.\nK[i] = 2.\nG[i] = 1.\nLoss = S.\n");
  EXPECT_EQ(once, expected);
}

TEST(RulesLanguage, FormattingKeepsCommentsAndGaps) {
  EXPECT_EQ(format_text("# a\n\n\n# b\nP( A ).# c\n\n\nQ(B):-P(A) .\n# d"),
            "# a\n\n# b\nP(A).  # c\n\nQ(B) :- P(A).\n# d\n");
  EXPECT_EQ(format_text("Q(x) :- # why\n  P(x).\n"), "# why\nQ(x) :- P(x).\n");
  EXPECT_EQ(format_text(""), "");
}

// A rule that somebody laid out over several lines is not made one long line again.
TEST(RulesLanguage, LongStatementsGoOverSeveralLines) {
  const auto named = [](int i) { return "Relation" + std::to_string(i); };
  std::string rule = "Head(x) :- Relation0(x)", sum = "Y = 0.5", names = "domain D = {A", quoted = "P(\"";
  for (int i = 1; i < 12; ++i) {
    rule += ", exists(y: " + named(i) + "(x, y), not " + named(i) + "(y, x))";
    sum += " + square(W[" + std::to_string(i) + "] - 1)";
    names += ", \"name " + std::to_string(i) + "\"";
    quoted += "a, b; c + d: ";
  }
  for (const std::string& text : {rule + ".\n", sum + ".\n", names + "}.\n", quoted + "\").\n"}) {
    const std::string laid_out = format_text(text);
    EXPECT_EQ(format_text(laid_out), laid_out);
    std::string joined = laid_out;
    for (std::size_t at = 0; (at = joined.find("\n    ", at)) != std::string::npos;) joined.replace(at, 5, " ");
    EXPECT_EQ(joined, text);
    if (text.starts_with("P(")) continue;  // what stands in quotes is never broken
    std::size_t longest = 0, begin = 0;
    for (std::size_t end; (end = laid_out.find('\n', begin)) != std::string::npos; begin = end + 1)
      longest = std::max(longest, end - begin);
    EXPECT_LE(longest, 120U) << laid_out;
    EXPECT_GT(laid_out.size(), text.size()) << laid_out;
  }
  EXPECT_EQ(format_text(rule + ".").substr(0, 80).find("exists(y:\n"), std::string::npos);  // not inside of brackets
}

TEST(RulesLanguage, BracketsAreKeptWhereTheyMatter) {
  for (const char* text : {"Y = (1 + 2) * 3.\n", "Y = 1 - (2 - 3).\n", "Y = 8 / (4 / 2).\n", "Y = (-2)^2.\n",
                           "Y = -2^2.\n", "Y = 2^-1.\n", "Q(A) :- (P(A); P(B)), P(C).\n", "Q(A) :- not (P(A), P(B)).\n",
                           "?- (P(A) -> P(B)) -> P(C).\n", "?- P(A) -> P(B) -> P(C).\n"})
    EXPECT_EQ(format_text(text), text);
}

TEST(RulesLanguage, SyntaxErrorsNameLineAndColumn) {
  expect_refused("P(A)", "p.wr:1:5: expected ':-', '?' or '.', found the end of the text");
  expect_refused("P(A.\n", "p.wr:1:4: expected ')' or ',', found '.'");
  expect_refused("P(A).\nQ(x) :- P(x), .", "p.wr:2:15: expected a literal, such as P(x), not P(x) or x < y, found '.'");
  expect_refused("P(A) :- Q(A) R(A).", "p.wr:1:14: expected '.' at the end of the statement, found 'R'");
  expect_refused("P(\"a", "p.wr:1:3: this text in quotes is not closed on its line");
  expect_refused("P(\"\\x\").", "p.wr:1:5: after \\ only \" \\ t and n may stand");
  expect_refused("P(A) $", "p.wr:1:6: '$' does not belong to the language");
  expect_refused("P(A).\n\x01", "p.wr:2:1: byte 0x01 does not belong to the language");
  expect_refused("@unknown 3.",
                 "p.wr:1:2: unknown directive '@unknown'; there are @semantics, @load, @minimize, @fixpoint and @seed");
  expect_refused("domain D = {A, B.", "p.wr:1:17: expected '}' or ',', found '.'");
  expect_refused("Y[i] = sig().", "p.wr:1:8: sig: 0 arguments; it is written sig(x) or sig(x, temperature)");
  expect_refused("0.5 P(A).", "p.wr:1:5: expected '::' after a weight, found 'P'");
  expect_refused("P(A) = 3.", "p.wr:1:1: only a tensor, with [ ], has equations; a relation has rules with ':-'");
  expect_refused("Q(A) :- count(y: P(y)) > x.", "p.wr:1:26: a count is compared with a number");
  expect_refused("P(99999999999999999999).", "p.wr:1:3: '99999999999999999999' is not an integer that fits in 63 bits");
  expect_refused("é(A).\né(A) é", "p.wr:2:6: expected ':-', '?' or '.', found 'é'");
  expect_refused("P(A).\nP(\"M\xfcller\").",
                 "p.wr:2:3: a word with byte 0xfc, which is no UTF-8; save the program as UTF-8");
}

TEST(RulesLanguage, UnboundHeadVariable) {
  expect_refused("P(A).\nQ(x, z) :- P(x).",
                 "p.wr:2:6: variable 'z' of the head stands in no positive literal of the body");
  expect_refused("P(A).\nQ(x, z) :- P(x), not R(z).\nR(A).",
                 "p.wr:2:6: variable 'z' of the head stands in no positive literal of the body");
  expect_refused("P(A). R(A).\nQ(x) :- P(x); R(y).",
                 "p.wr:2:3: variable 'x' of the head stands in no positive literal of the body");
  EXPECT_EQ(refused("P(A).\nQ(x, z) :- P(x), z = x."), "no error");
}

TEST(RulesLanguage, UnsafeNegation) {
  expect_refused("P(A). R(A, B).\nQ(x) :- P(x), not R(x, y).",
                 "p.wr:2:24: variable 'y' of a negated literal stands in no positive literal of the body");
  expect_refused("P(A).\nQ(x) :- P(x), x < y.",
                 "p.wr:2:19: variable 'y' of a comparison stands in no positive literal of the body");
  EXPECT_EQ(refused("P(A). R(A, B).\nQ(x) :- P(x), not R(x, _)."), "no error");
}

TEST(RulesLanguage, Arity) {
  expect_refused("Parent(A, B).\nParent(A, B, C).", "p.wr:2:1: Parent has 2 arguments (line 1), 3 here");
  expect_refused("rel P(D).\ndomain D = {A}.\nQ(x) :- P(x, x).", "p.wr:3:9: P has 1 arguments (line 1), 2 here");
  expect_refused("domain D = 3.\ntensor T[D].\nQ(x) :- T(x).",
                 "p.wr:3:9: T is a tensor (line 2); here it is written as a relation");
}

TEST(RulesLanguage, UnknownNames) {
  expect_refused("Parent(A, B).\nQ(x) :- Parnet(x, y).",
                 "p.wr:2:9: unknown relation or tensor 'Parnet'; did you mean 'Parent'?");
  expect_refused("Q(x) :- Zebra(x).", "p.wr:1:9: unknown relation or tensor 'Zebra'");
  expect_refused("domain D = 3.\ntensor X[D] input.\nY[i] = sigmod(X[i]).",
                 "p.wr:3:8: unknown function 'sigmod'; did you mean 'sigmoid'?");
  expect_refused("Edge(A, B).\n?- Egde(x, y).", "p.wr:2:4: unknown relation or tensor 'Egde'; did you mean 'Edge'?");
  expect_refused("domain D = 3.\ntensor Y[D].\nY[i] = sigmod(i).",
                 "p.wr:3:8: unknown relation, tensor or function 'sigmod'; did you mean 'sigmoid'?");
  expect_refused("domain Person = {Ann, Bob}.\nrel P(Person).\nP(Anna).",
                 "p.wr:3:3: unknown constant Anna in domain Person; did you mean Ann?");
  expect_refused("domain N = 5.\nrel P(N).\nP(5).", "p.wr:3:3: unknown constant 5 in domain N, which is 0 to 4");
  expect_refused("domain Person = {Ann}.\nrel P(Persn).", "p.wr:2:7: unknown domain 'Persn'; did you mean 'Person'?");
  expect_refused("@semantics prodct.",
                 "p.wr:1:12: unknown semantics 'prodct'; there are boolean, product, godel, lukasiewicz, sum, maxprod, "
                 "minplus, ltn");
}

TEST(RulesLanguage, AnnotationsNameTheirPlace) {
  expect_refused("P(A).\nQ(x) :- P(x) @goedel.",
                 "p.wr:2:15: unknown semantics 'goedel'; there are boolean, product, godel, lukasiewicz, sum, maxprod, "
                 "minplus, ltn");
  expect_refused("P(A).\nconstraint forall(x: P(x) -> P(x)) @product.",
                 "p.wr:2:37: unknown implication 'product'; there are reichenbach, lukasiewicz, kleene, godel, goguen");
  expect_refused("P(A).\nQ(x) :- P(x) @sum T=-1.", "p.wr:2:21: a temperature is 0 or more");
}

/// What people who know Prolog, clingo or C write first.
TEST(RulesLanguage, HabitsOfOtherLanguages) {
  expect_refused("% facts\nP(A).", "p.wr:1:1: '%' does not belong to the language; a comment begins with '#'");
  expect_refused("P(A).\nQ(x) :- P(x) & P(x).", "p.wr:2:14: '&' does not belong to the language; 'and' is written ','");
  expect_refused("P(A).\nQ(x) :- P(x) | P(x).", "p.wr:2:14: '|' does not belong to the language; 'or' is written ';'");
  for (const char* habit : {"!P(x)", "\\+P(x)", "~P(x)"})
    expect_refused(std::string("P(A).\nQ(x) :- P(x), ") + habit + ".",
                   std::string("p.wr:2:15: '") + habit[0] +
                       "' does not belong to the language; negation is written 'not', unequal '!='");
  expect_refused("P('a').", "p.wr:1:3: ''' does not belong to the language; quotes are double ones");
  expect_refused("P(A).\nQ(x) :- P(x), x == A.", "p.wr:2:17: '==' is no comparison; there are = != < <= > >=");
  expect_refused("P(1).\nQ(x) :- P(x), x =< 3.", "p.wr:2:17: '=<' is no comparison; there are = != < <= > >=");
  expect_refused("P(1).\nQ(x) :- P(x), x <> 3.", "p.wr:2:17: '<>' is no comparison; there are = != < <= > >=");
}

TEST(RulesLanguage, NumbersThatAreNotWhole) {
  const std::string text =
      "Age(Ann, 3.5).\nAge(Bob, -2.25).\nAge(Cid, 2).\nOld(x) :- Age(x, n), n > 2.5.\n?- Old(x).\n";
  EXPECT_EQ(format_text(text), text);
  const Program program = Program::parse(text, "p.wr");
  EXPECT_EQ(to_tsv(program.query("Old(x)")), "x\nAnn\n");
  EXPECT_EQ(to_tsv(program.query("Age(x, -2.25)")), "x\nBob\n");
  expect_refused("P(1).\nQ(x) :- P(x), x > 1 + 2.5.", "p.wr:2:21: expected '.' at the end of the statement, found '+'");
  expect_refused("P(1).\nQ(x) :- P(x), P(x + 2.5).", "p.wr:2:21: '2.5' is no whole number");
  expect_refused("domain D = 2.5.", "p.wr:1:12: '2.5' is no whole number");
}

TEST(RulesLanguage, ArithmeticInBodies) {
  expect_refused("Age(Ann, 3).\nSum(s) :- s = sum(n: Age(_, n)).",
                 "p.wr:2:15: 'sum' stands in equations, such as S = sum(i: X[i]); a body has count(y: ...) >= 2");
  expect_refused("P(1).\nQ(x) :- P(x), P(y), y = x * 2.",
                 "p.wr:2:27: expected ',', ';' or '.': a variable is compared as it is, or moved by a number as in x + "
                 "1, found '*'");
  expect_refused("P(1).\nP(x) :- .", "p.wr:2:9: expected a literal, such as P(x), not P(x) or x < y, found '.'");
}

TEST(RulesLanguage, NumbersOfFixpoints) {
  expect_refused("@fixpoint(0).", "p.wr:1:11: a fixpoint takes 1 to 1000000000 iterations");
  expect_refused("@fixpoint(10, -1).", "p.wr:1:15: a tolerance is 0 or more");
}

TEST(RulesLanguage, IndicesOfWhichNothingIsKnown) {
  expect_refused(
      "X[n+1] = 1 - X[n].",
      "p.wr:1:3: nothing says which values index 1 of X has; declare it, as in `domain D = 10. tensor X[D].`");
  expect_refused(
      "domain D = 3.\ntensor F[D].\nP[x/2] max= F[x].",
      "p.wr:3:3: nothing says which values index 1 of P has; declare it, as in `domain D = 10. tensor P[D].`");
  expect_refused("S = sum(i: i * i).",
                 "p.wr:1:1: nothing says which values 'i' has; use it as the index of a declared tensor");
  EXPECT_EQ(refused("domain D = 3.\ntensor X[D].\nX[n+1] = 1 - X[n]."), "no error");
  // A domain that grows with the data may have none yet.
  const Program empty = Program::parse("domain D.\ntensor X[D].\nX[n] = 1 + X[n-1].\n", "p.wr");
  EXPECT_EQ(error_of([&] { empty.relation("X"); }),
            "p.wr:2:1: domain D of X is empty: declare it, or give facts or data");
}

TEST(RulesLanguage, OptionsOfMinimize) {
  const std::string program = "domain D = 3.\ntensor X[D] learn.\nLoss = X[i].\n";
  for (const char* steps : {"0", "-5", "2.5", "1e300"})
    expect_refused(program + "@minimize Loss(steps=" + steps + ").",
                   std::string("p.wr:4:16: steps=") + steps + ": expected a whole number from 1 to 1000000000");
  expect_refused(program + "@minimize Loss(lr=-1).", "p.wr:4:16: lr=-1: expected a number above 0");
  expect_refused(program + "@minimize Loss(lr=inf).", "p.wr:4:16: lr=inf: expected a number");
  expect_refused(program + "@minimize Loss(decay=-1).", "p.wr:4:16: decay=-1: expected a number from 0 on");
  expect_refused(program + "@minimize Loss(steps=ten).", "p.wr:4:16: steps=ten: expected a number");
  expect_refused(program + "@minimize Loss(rate=1).",
                 "p.wr:4:16: unknown option 'rate'; there are lr, steps, decay and optimiser");
  expect_refused(program + "@minimize Loss(optimiser=adma).",
                 "p.wr:4:16: unknown optimiser 'adma'; there are adam, adamw, sgd and rmsprop");
  EXPECT_EQ(refused(program + "@minimize Loss(lr=0.1, steps=5, decay=0.01, optimiser=rmsprop)."), "no error");
}

TEST(RulesLanguage, NotesOnWhatIsProbablyAMistake) {
  const auto notes = [](const std::string& text) { return Program::parse(text, "p.wr").notes(); };
  using Notes = std::vector<std::string>;
  EXPECT_EQ(notes("Parent(Ann, Bob).\nAnc(X, y) :- Parent(X, y).\n?- Anc(x, y)."),
            (Notes{"p.wr:2:21: no fact and no data have the constant X; a variable begins with a small letter"}));
  EXPECT_EQ(notes("Parent(Ann, Bob).\n?- Parent(Ann, Bod)."),
            (Notes{"p.wr:2:16: no fact and no data have the constant Bod; a variable begins with a small letter"}));
  EXPECT_EQ(notes("domain V.\nrel E(V, V) input.\n?- E(A, y)."),
            (Notes{"p.wr:2:1: E is an input, and no data are given for it"}));
  EXPECT_EQ(notes("Parent(Ann, Bob).\nRank(x, High) :- Parent(x, Bob).\n?- Rank(x, High)."), Notes{});
  EXPECT_EQ(notes("domain D = {A, B}.\nrel P(D).\nP(A).\n?- P(B)."), Notes{});
  EXPECT_EQ(notes("0.5 :: P(A).\nQ(x) :- P(x) T=0.5."),
            (Notes{"p.wr:2:1: T= means something in sum semantics only; this rule has product semantics"}));
  EXPECT_EQ(notes("0.5 :: P(A).\nQ(x) :- P(x) @sum T=0.5."), Notes{});
  Program program = Program::parse("domain V.\nrel E(V, V) input.\n?- E(A, y).", "p.wr");
  program.add("E", {{"A", "B"}});
  EXPECT_EQ(program.notes(), Notes{});
}

TEST(RulesLanguage, NotesOnFactsOfAMisspeltRelation) {
  const auto notes = [](const std::string& text) { return Program::parse(text, "p.wr").notes(); };
  using Notes = std::vector<std::string>;
  const std::string rule = "Grand(x, z) :- Parent(x, y), Parent(y, z).\n";
  EXPECT_EQ(notes("Parent(A, B).\nParnet(B, C).\n" + rule),
            (Notes{"p.wr:2:1: nothing uses Parnet; did you mean Parent?"}));
  EXPECT_EQ(notes("Mother(A, B).\nParent(B, C).\nE1(A).\nE2(A).\nQ(x) :- E1(x).\n" + rule), Notes{});
  EXPECT_EQ(notes("Parent(A, B).\nParnet(B, C).\n?- Parnet(x, y).\n" + rule), Notes{});
  EXPECT_EQ(notes("Parent(A, B).\nParnet(B, C).\nlearn :: Q(x, y) :- ?r(x, y).\n" + rule), Notes{});
}

TEST(RulesLanguage, OfSeveralDirectivesTheLastCounts) {
  const Program program =
      Program::parse("@semantics product.\n@fixpoint(5).\n0.5 :: P(A).\n@semantics godel.\n", "p.wr");
  EXPECT_EQ(program.semantics(), Semantics::godel);
  EXPECT_EQ(program.notes(),
            std::vector<std::string>{"p.wr:1:1: this @semantics means nothing: another follows on line 4"});
}

TEST(RulesLanguage, NotesOnDataThatNothingMentions) {
  Program program = Program::parse("domain V.\nrel Edge(V, V) input.\n?- Edge(x, y).", "p.wr");
  program.add("Edgee", {{"A", "B"}});
  EXPECT_EQ(program.notes(), (std::vector<std::string>{
                                 "p.wr:2:1: Edge is an input, and no data are given for it",
                                 "p.wr: data are given for Edgee, which no statement mentions; did you mean Edge?"}));
  EXPECT_EQ(program.query("Edgee(x, y)").rows.size(), 1U);
}

TEST(RulesLanguage, MistakesInQueriesHaveTheirOwnPlaces) {
  const Program program = Program::parse("P(Ann, Bob).\n\n\nQ(x) :- P(x, y).\n", "p.wr");
  const auto wrong = [&](const std::string& query) { return error_of([&] { program.query(query); }); };
  EXPECT_EQ(wrong("R(x)"), "query:1:1: unknown relation or tensor 'R'");
  EXPECT_EQ(wrong("P(x, y), Q(x, y)"), "query:1:10: Q has 1 arguments (line 4), 2 here");
  EXPECT_EQ(wrong("P(x, y),\n  not Q(z)"),
            "query:2:9: variable 'z' of a negated literal stands in no positive literal of the body");
  EXPECT_EQ(wrong("P(Ann, y"), "query:1:9: expected ')' or ',', found the end of the text");
  EXPECT_EQ(wrong(""), "query:1:1: expected a query, such as Ancestor(Ann, y), found the end of the text");
  EXPECT_EQ(wrong("Q(x). Q(y)"), "query:1:7: expected ',', ';' or the end of the query, found 'Q'");
  EXPECT_EQ(wrong("P(x, Bod)"), "query:1:6: unknown constant Bod; did you mean Bob?");
  for (const char* query : {"Q(x)", "Q(x).", "?- Q(x).", "?- Q(x)", " Q(x)?"})
    EXPECT_EQ(program.query(query).rows.size(), 1U) << query;
}

TEST(RulesLanguage, DataThatAreRefusedAreNotKept) {
  const TemporaryFolder folder;
  write_text(folder / "e.tsv", "0\t7\n");
  Program program = Program::parse("domain N = 3.\nrel E(N, N) input.\nrel F(N) input.\n", "p.wr");
  program.add("E", {{"0", "1"}});
  program.set("F", Array::from<float>({0, 1, 0}));
  EXPECT_EQ(error_of([&] { program.add("E", {{"0", "1", "2"}}); }), "rows of E: 3 columns; E has 2 arguments");
  EXPECT_NE(error_of([&] { program.load("E", folder / "e.tsv"); }), "no error");
  EXPECT_NE(error_of([&] { program.set("F", Array::from<float>({1, 2})); }), "no error");
  EXPECT_NE(error_of([&] { program.set("E", Array::from<float>({1, 2})); }), "no error");
  EXPECT_EQ(to_tsv(program.query("E(x, y)")), "x\ty\n0\t1\n");
  EXPECT_EQ(to_tsv(program.query("F(x)")), "x\n1\n");
  program.add("E", {{"1", "2"}});
  EXPECT_EQ(program.query("E(x, y)").rows.size(), 2U);
}

TEST(RulesLanguage, DataAreUtf8) {  // two names in Latin-1 would be one as JSON
  const TemporaryFolder folder;
  write_text(folder / "e.csv", "a,b\nM\xfcller,b\n");
  write_text(folder / "names.txt", "a\n\xff\n");
  Program program = Program::parse("domain V.\nrel E(V, V) input.\n");
  EXPECT_EQ(error_of([&] { program.load("E", folder / "e.csv"); }),
            (folder / "e.csv") + ": line 2: byte 0xfc is no UTF-8; save the file as UTF-8");
  EXPECT_EQ(error_of([&] { Program::parse_in_folder("domain D = \"names.txt\".\n", folder / "."); }),
            (folder / "./names.txt") + ": line 2: byte 0xff is no UTF-8; save the file as UTF-8");
}

TEST(RulesLanguage, MistakesInDataNameTheirSource) {
  const TemporaryFolder folder;
  write_text(folder / "e.tsv", "0\t1\n1\t7\n");
  Program program = Program::parse("domain N = 3.\nrel E(N, N) input.\ntensor W[N] input.\n?- E(0, y).", "p.wr");
  EXPECT_EQ(error_of([&] { Program(program).load("E", folder / "e.tsv"); }),
            (folder / "e.tsv") + ": row 2: unknown constant 7 in domain N, which is 0 to 2");
  EXPECT_EQ(error_of([&] {
              Program(program).set("W", Array::from<float>({1, 2, 3, 4}));
            }),
            "p.wr: index 1 of W has 4 elements in the array that is given, 3 were expected (domain N)");
  SolveOptions options;
  options.semantics = Semantics::boolean;
  program.set("E", Array::from<float>({{0, 1, 0}, {0, 0, std::nanf("")}, {0, 0, 0}}));
  EXPECT_EQ(error_of([&] { program.run(options); }),
            "p.wr: the array that is given for E has at (1, 2) no number, which is neither true nor false");
  options.semantics = Semantics::product;
  program.set("E", Array::from<float>({{0, 1, 0.5F}, {0, 0, 2}, {0, 0, 0}}));
  EXPECT_EQ(
      error_of([&] { program.run(options); }),
      "p.wr: the array that is given for E has at (1, 2) a weight of 2; in product semantics weights are from 0 to 1");
  options.semantics = Semantics::minplus;
  EXPECT_EQ(program.run(options)[0].rows.size(), 3U);
}

TEST(RulesLanguage, ATableMayBeginWithAByteOrderMark) {
  const TemporaryFolder folder;
  write_text(folder / "e.csv",
             "\xef\xbb\xbf"
             "Ann,Bob\r\n");
  Program program = Program::parse("domain V.\nrel E(V, V) input.\n", "p.wr");
  program.load("E", folder / "e.csv");
  EXPECT_EQ(to_tsv(program.query("E(x, y)")), "x\ty\nAnn\tBob\n");
}

TEST(RulesLanguage, DomainMismatch) {
  expect_refused(
      "domain Person = {Ann}. domain City = {Rome}.\nrel In(Person, City).\nrel Old(Person).\nQ(y) :- In(x, y), "
      "Old(y).",
      "p.wr:4:23: domains differ: 'y' is of City (line 2) and is used here as one of Person (line 3)");
  expect_refused("domain D = 3. domain D = 4.", "p.wr:1:15: domain D was declared before, on line 1");
  expect_refused("domain D = {A, A}.", "p.wr:1:1: domain D has 'A' twice");
}

TEST(RulesLanguage, NegationMustBeStratified) {
  expect_refused("Move(A, B).\nWin(x) :- Move(x, y), not Win(y).",
                 "p.wr:2:27: Win depends on its own negation: Win <- not Win; negation must be stratified");
  expect_refused("E(A).\nP(x) :- E(x), not Q(x).\nQ(x) :- R(x).\nR(x) :- P(x).",
                 "p.wr:2:19: P depends on its own negation: P <- not Q <- R <- P; negation must be stratified");
  expect_refused("E(A, B).\nP(x) :- E(x, _), count(y: E(x, y), P(y)) >= 1.",
                 "p.wr:2:36: P depends on its own negation: P <- not P; negation must be stratified");
}

/// A domain that grows with the data has constants by their names, which an array lacks: they were read beyond the end.
TEST(RulesLanguage, AnArrayOverADomainThatGrows) {
  const std::string rules = "domain V.\nrel E(V, V) input.\nT(x, y) :- E(x, y).\n";
  const Array chain = Array::from<float>({{0, 1, 0}, {0, 0, 1}, {0, 0, 0}});
  using Rows = std::vector<std::vector<std::string>>;
  Program numbered = Program::parse(rules, "p.wr");
  numbered.set("E", chain);
  EXPECT_EQ(numbered.query("T(x, y)").rows, Rows({{"0", "1"}, {"1", "2"}}));
  EXPECT_EQ(numbered.query("T(x, 2)").rows, Rows({{"1"}}));
  Program named = Program::parse(rules + "rel Name(V).\nName(Ann).\nName(Bob).\nName(Cora).\n", "p.wr");
  named.set("E", chain);
  EXPECT_EQ(named.query("T(x, y)").rows, Rows({{"Ann", "Bob"}, {"Bob", "Cora"}}));
  Program other = Program::parse(rules + "?- T(Ann, y).\n", "p.wr");
  EXPECT_EQ(error_of([&] { other.set("E", chain); }),
            "p.wr: domain V has 1 constant, and an array that is given has 3 along it; an array names none: declare "
            "them, as in `domain V = 3.` or `domain V = {Ann, Bob}.`");
  EXPECT_EQ(error_of([&] {
              numbered.set("E", Array::from<float>({{0, 1, 0}, {0, 0, 1}}));
            }),
            "p.wr: domain V has 2 constants, and an array that is given has 3 along it; an array names none: declare "
            "them, as in `domain V = 3.` or `domain V = {Ann, Bob}.`");
}

TEST(RulesLanguage, AFactHasNoVariables) {
  expect_refused("Parent(ann, Bob).",
                 "p.wr:1:8: 'ann' is a variable; a fact has constants, which begin with a capital or stand in quotes");
}

std::string nonsense() {
  std::uint64_t seed = 1;
  std::string text(1 << 20, ' ');
  for (char& c : text) {
    seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
    c = static_cast<char>(seed >> 56);
  }
  return text;
}

/// `first`, then `part` so many times, then `last`.
std::string repeated(const std::string& first, const std::string& part, int times, const std::string& last) {
  std::string text = first;
  for (int i = 0; i < times; ++i) text += part;
  return text + last;
}

TEST(RulesRefused, Nonsense) {
  std::string text = nonsense();
  EXPECT_NE(refused(text).find("which is no UTF-8"), std::string::npos);
  for (char& c : text) c = static_cast<char>(c & 0x7f);
  EXPECT_NE(refused(text).find(" does not belong to the language"), std::string::npos);
  expect_refused(std::string(1 << 20, 'x'), "p.wr:1:1: a word of 1048576 bytes; at most 4096 are read");
  expect_refused(std::string(1 << 20, '('),
                 "p.wr:1:1: expected a fact, a rule, an equation, a query, a declaration or a directive, found '('");
}

// A sum of many terms is a tree as deep as it is long: it must not reach the end of the stack.
TEST(RulesRefused, LongStatements) {
  const std::string said =
      ": more than 1000 literals and operators in one statement; give parts of it names by rules or equations of their "
      "own";
  expect_refused(repeated("Y = 1", "+1", 500'000, "."), "p.wr:1:2006" + said);
  expect_refused(repeated("Y = 1", " 1", 100'000, "."), "p.wr:1:2007" + said);
  expect_refused(repeated("P(A).\nQ(x) :- P(x)", ", P(x)", 100'000, "."), "p.wr:2:6009" + said);
  expect_refused(repeated("P(A).\nQ(x) :- P(x)", ", exists(y: P(y))", 60'000, "."), "p.wr:2:8508" + said);
  EXPECT_EQ(refused(repeated("Y = 1", "+1", 1000, ".")), "no error");
  EXPECT_EQ(refused(repeated("", "Y = 1+1+1.\n", 1000, "")), "no error");  // the limit is a statement's
}

TEST(RulesRefused, NestedBrackets) {
  const std::string many(10'000, '('), closed(10'000, ')');
  EXPECT_NE(refused("Y = " + many + "1" + closed + ".").find("nested deeper than 200 levels"), std::string::npos);
  EXPECT_NE(refused("?- " + many + "P(A)" + closed + ".").find("nested deeper than 200 levels"), std::string::npos);
  std::string minus = "Y = ";
  for (int i = 0; i < 10'000; ++i) minus += "-";
  EXPECT_NE(refused(minus + "1.").find("nested deeper than 200 levels"), std::string::npos);
  std::string nots = "?- ";
  for (int i = 0; i < 10'000; ++i) nots += "not ";
  EXPECT_NE(refused(nots + "P(A).").find("nested deeper than 200 levels"), std::string::npos);
}

TEST(RulesRefused, HugeDomain) {
  expect_refused("domain D = 1099511627776.\nrel P(D).\nP(3).",
                 "p.wr:1:1: domain D has 1099511627776 elements; at most 2147483647 are possible");
  const Program large = Program::parse("domain D = 2147483647.\nrel P(D, D, D, D).\nP(1, 2, 3, 4).\n", "p.wr");
  EXPECT_EQ(error_of([&] { static_cast<void>(large.query("P(1, x, y, z)")); }),
            "p.wr: P could have 2.13e+37 tuples; at most 9e18 can be told apart");
}

TEST(RulesRefused, ManyAlternatives) {
  std::string body = "P(A)";
  for (int i = 0; i < 20; ++i) body += ", (P(A); P(B))";
  const Program program = Program::parse("P(A).\nQ(A) :- " + body + ".\n", "p.wr");
  EXPECT_NE(error_of([&] { static_cast<void>(program.query("Q(A)")); }).find("more than 1000 alternatives"),
            std::string::npos);
}

TEST(RulesRefusedTiming, InUnderASecond) {
  const std::string many(10'000, '(');
  const std::string texts[] = {nonsense(),
                               std::string(1 << 20, '('),
                               "Y = " + many,
                               "?- " + many,
                               "domain D = 1099511627776.\nrel P(D).\nP(3).",
                               repeated("Y = 1", "+1", 500'000, "."),
                               repeated("P(A).\nQ(x) :- P(x)", ", exists(y: P(y))", 60'000, "."),
                               repeated("", "P(A) :- Q(A).\n", 75'000, "")};
  for (const std::string& text : texts) {
    const std::clock_t start = std::clock();  // of the processor: others may use it too
    EXPECT_NE(refused(text), "no error");
    EXPECT_LT(static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC, 1) << text.substr(0, 40);
  }
}

}  // namespace
}  // namespace wr::rules

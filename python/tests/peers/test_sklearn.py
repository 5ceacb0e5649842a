"""windrow.sklearn keeps scikit-learn's rules, and learns what its own perceptron learns."""
import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits, make_regression
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.neural_network import MLPClassifier as Theirs
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks
from windrow.sklearn import MLPClassifier, MLPRegressor

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@parametrize_with_checks([MLPClassifier(max_iter=100), MLPRegressor(max_iter=100)])
def test_scikit_learns_own_checks(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return train_test_split((X / 16).astype(np.float32), y, random_state=0)


def test_digits_are_learnt_as_well_as_by_scikit_learn(digits):
    X, X_test, y, y_test = digits
    ours = MLPClassifier((64,), max_iter=30, random_state=0).fit(X, y)
    theirs = Theirs((64,), max_iter=30, random_state=0).fit(X, y)
    assert ours.score(X_test, y_test) > theirs.score(X_test, y_test) - 0.02
    assert ours.coefs_[0].shape == theirs.coefs_[0].shape and ours.coefs_[0].dtype == np.float32
    np.testing.assert_allclose(ours.predict_proba(X_test).sum(1), 1, rtol=1e-5)


def test_weights_count(digits):
    X, _, y, _ = digits
    weight = np.where(y < 5, 1.0, 0.0)
    assert set(MLPClassifier((32,), max_iter=30, random_state=0).fit(X, y, sample_weight=weight).predict(X)) <= set(range(5))


def test_early_stopping_keeps_the_best(digits):
    X, X_test, y, y_test = digits
    model = MLPClassifier((64,), early_stopping=True, n_iter_no_change=3, random_state=0).fit(X, y)
    assert model.n_iter_ < 200 and len(model.validation_scores_) == model.n_iter_
    assert model.best_validation_score_ == max(model.validation_scores_)
    assert model.score(X_test, y_test) > 0.9


def test_fitted_models_are_pickled_and_cloned(digits):
    X, _, y, _ = digits
    model = MLPClassifier((16,), max_iter=5, random_state=0).fit(X, y)
    model.predict(X)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict(X), model.predict(X))
    assert not hasattr(clone(model), "coefs_")


def test_the_same_seed_gives_the_same_net_at_any_number_of_threads(digits):
    X, _, y, _ = digits
    a, b = (MLPClassifier((16,), max_iter=3, random_state=4, threads=t).fit(X, y) for t in (1, 2))
    for u, v in zip(a.coefs_, b.coefs_):
        np.testing.assert_array_equal(u, v)


def test_regression_with_several_targets_in_a_grid_search():
    X, Y = make_regression(200, 6, n_targets=2, noise=1, random_state=0)
    Y = (Y - Y.mean(0)) / Y.std(0)
    model = make_pipeline(StandardScaler(), MLPRegressor(max_iter=150, learning_rate_init=0.01, random_state=0))
    search = GridSearchCV(model, {"mlpregressor__hidden_layer_sizes": [(4,), (32,)]}, cv=2).fit(X, Y)
    assert search.best_score_ > 0.9 and search.predict(X).shape == (200, 2)


def test_wrong_parameters_are_named():
    with pytest.raises(ValueError, match="'activation' parameter"):
        MLPClassifier(activation="none").fit([[0.0], [1.0]], [0, 1])

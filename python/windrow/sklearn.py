"""MLPClassifier and MLPRegressor for scikit-learn pipelines: its interface, Windrow's speed.

    from windrow.sklearn import MLPClassifier        # instead of: from sklearn.neural_network import MLPClassifier

    model = make_pipeline(StandardScaler(), MLPClassifier((64, 64), early_stopping=True)).fit(X, y)

Computes in float32 if X is float32 and in float64 otherwise, as scikit-learn does: float32 is about twice as fast.
"""
import warnings
import weakref
from numbers import Integral, Real

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import train_test_split
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

import windrow as wr

__all__ = ["MLPClassifier", "MLPRegressor"]

_ACTIVATIONS = {"relu": wr.relu, "tanh": wr.tanh, "logistic": wr.sigmoid, "silu": wr.silu, "gelu": wr.gelu, "identity": lambda x: x}

_PLANS = weakref.WeakKeyDictionary()  # fitted estimator -> (its coefficients, what predicts); not part of what is pickled


def _forward(x, weights, biases, activation):
    for i, (w, b) in enumerate(zip(weights, biases)):
        x = x @ w.tensor() + b.tensor()
        if i + 1 < len(weights):
            x = _ACTIVATIONS[activation](x)
    return x


class _MLP(BaseEstimator):
    _parameter_constraints = {
        "hidden_layer_sizes": ["array-like", Interval(Integral, 1, None, closed="left")],
        "activation": [StrOptions(set(_ACTIVATIONS))],
        "solver": [StrOptions({"adam", "sgd"})],
        "alpha": [Interval(Real, 0, None, closed="left")],
        "batch_size": [StrOptions({"auto"}), Interval(Integral, 1, None, closed="left")],
        "learning_rate_init": [Interval(Real, 0, None, closed="neither")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "shuffle": ["boolean"],
        "random_state": ["random_state"],
        "tol": [Interval(Real, 0, None, closed="left")],
        "verbose": ["verbose"],
        "early_stopping": ["boolean"],
        "validation_fraction": [Interval(Real, 0, 1, closed="neither")],
        "n_iter_no_change": [Interval(Integral, 1, None, closed="left")],
        "threads": [Interval(Integral, 0, None, closed="left")],
    }

    def __init__(self, hidden_layer_sizes=(100,), activation="relu", *, solver="adam", alpha=1e-4, batch_size="auto",
                 learning_rate_init=1e-3, max_iter=200, shuffle=True, random_state=None, tol=1e-4, verbose=False, early_stopping=False,
                 validation_fraction=0.1, n_iter_no_change=10, threads=0):
        self.hidden_layer_sizes = hidden_layer_sizes
        self.activation = activation
        self.solver = solver
        self.alpha = alpha
        self.batch_size = batch_size
        self.learning_rate_init = learning_rate_init
        self.max_iter = max_iter
        self.shuffle = shuffle
        self.random_state = random_state
        self.tol = tol
        self.verbose = verbose
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.threads = threads

    # ---- training
    def _initial(self, sizes, dtype, random):
        """Glorot's bounds, as scikit-learn draws them."""
        factor = 2.0 if self.activation == "logistic" else 6.0
        weights, biases = [], []
        for a, b in zip(sizes, sizes[1:]):
            bound = np.sqrt(factor / (a + b))
            weights.append(wr.State(random.uniform(-bound, bound, (a, b)).astype(dtype)))
            biases.append(wr.State(random.uniform(-bound, bound, b).astype(dtype)))
        return weights, biases

    def _train_step(self, weights, biases):
        if self.solver == "adam":
            optimiser = wr.optim.Adam(lr=self.learning_rate_init)
        else:
            optimiser = wr.optim.Sgd(lr=self.learning_rate_init, momentum=0.9, nesterov=True)

        def step(x, y, w):
            total = wr.maximum(w.sum(), 1e-30)
            loss = (self._losses(_forward(x, weights, biases, self.activation), y) * w).sum() / total
            decay = sum((wr.square(state.tensor()).sum() for state in weights[1:]), wr.square(weights[0].tensor()).sum())
            loss = loss + decay * (0.5 * self.alpha) / total
            optimiser.minimize(loss, weights + biases)
            return loss

        return wr.compile(step, name=type(self).__name__, threads=self.threads)

    def _fit(self, X, y, sample_weight, outputs):
        random = check_random_state(self.random_state)
        hidden = np.atleast_1d(np.asarray(self.hidden_layer_sizes, dtype=int)).tolist()
        if any(h < 1 for h in hidden):
            raise ValueError(f"hidden_layer_sizes must be > 0, got {self.hidden_layer_sizes}.")
        weights, biases = self._initial([X.shape[1], *hidden, outputs], X.dtype, random)
        sample_weight = _check_sample_weight(sample_weight, X, dtype=X.dtype, ensure_non_negative=True)
        held_out = None
        if self.early_stopping:
            X, y, sample_weight, held_out = self._hold_out(X, y, sample_weight, random)
        self._epochs(self._train_step(weights, biases), (X, y, sample_weight), held_out, weights, biases, random)
        self.n_layers_ = len(weights) + 1
        self.n_outputs_ = outputs
        return self

    def _hold_out(self, X, y, sample_weight, random):
        stratify = y if isinstance(self, ClassifierMixin) else None
        X, X_val, y, y_val, w, w_val = train_test_split(X, y, sample_weight, random_state=random, test_size=self.validation_fraction,
                                                        stratify=stratify)
        if isinstance(self, ClassifierMixin) and len(X_val) < 2:
            raise ValueError("The validation set is too small. Increase 'validation_fraction' or the size of your dataset.")
        return X, y, w, (X_val, y_val, w_val)

    def _epochs(self, step, data, held_out, weights, biases, random):
        n = len(data[0])
        size = min(200, n) if self.batch_size == "auto" else min(self.batch_size, n)
        data = [np.ascontiguousarray(d) for d in data]
        self.loss_curve_, self.validation_scores_, best, waited, kept = [], [], np.inf, 0, None
        for self.n_iter_ in range(1, self.max_iter + 1):
            order = random.permutation(n) if self.shuffle else np.arange(n)
            total = 0.0
            for start in range(0, n, size):
                rows = order[start:start + size]
                total += float(step(*(d[rows] for d in data))) * len(rows)
            self.loss_curve_.append(total / n)
            if not np.isfinite(total):
                raise ValueError("Solver produced non-finite parameter weights. The input data may contain large values and need to be "
                                 "preprocessed.")
            cost = self.loss_curve_[-1]
            if held_out is not None:
                self._keep(weights, biases)
                self.validation_scores_.append(self._score(*held_out))
                cost = -self.validation_scores_[-1]
                if cost < best:
                    kept = (self.coefs_, self.intercepts_)
            if self.verbose:
                print(f"Iteration {self.n_iter_}, loss = {self.loss_curve_[-1]:.8f}"
                      + (f", validation score = {self.validation_scores_[-1]:.6f}" if held_out is not None else ""))
            waited = 0 if cost < best - self.tol else waited + 1
            best = min(best, cost)
            if waited >= self.n_iter_no_change:
                break
        else:
            warnings.warn(f"Stochastic Optimizer: Maximum iterations ({self.max_iter}) reached and the optimization hasn't converged "
                          "yet.", ConvergenceWarning, stacklevel=4)
        self._keep(weights, biases)
        if kept is not None:
            self.coefs_, self.intercepts_ = kept
        self.loss_ = self.loss_curve_[-1]
        self.best_validation_score_ = max(self.validation_scores_) if self.validation_scores_ else None

    def _keep(self, weights, biases):
        self.coefs_ = [w.numpy() for w in weights]
        self.intercepts_ = [b.numpy() for b in biases]

    # ---- use
    def _outputs(self, X):
        """The last layer for rows of X, by plans for 1, 2, 4 ... 1024 rows: new sizes compile nothing."""
        use = _PLANS.get(self)
        if use is None or use[0] is not self.coefs_:
            weights, biases = [wr.State(w) for w in self.coefs_], [wr.State(b) for b in self.intercepts_]
            activation = self.activation  # not self, which the plan would keep alive
            step = wr.compile(lambda x: _forward(x, weights, biases, activation), name="predict", threads=self.threads)
            use = _PLANS[self] = (self.coefs_, step)
        X = np.ascontiguousarray(X, dtype=self.coefs_[0].dtype)
        parts = []
        for start in range(0, len(X), 1024):
            rows = X[start:start + 1024]
            padded = 1 << (len(rows) - 1).bit_length()
            if padded != len(rows):
                rows = np.concatenate([rows, np.zeros((padded - len(rows), rows.shape[1]), rows.dtype)])
            parts.append(use[1](rows).numpy()[:min(1024, len(X) - start)])
        return np.concatenate(parts)

    def _checked(self, X):
        check_is_fitted(self)
        return validate_data(self, X, dtype=(np.float64, np.float32), reset=False)


class MLPClassifier(ClassifierMixin, _MLP):
    """A multi-layer perceptron with softmax and cross entropy; two classes or more.

    The parameters are those of sklearn.neural_network.MLPClassifier; solver is 'adam' or 'sgd', activation also 'silu' or
    'gelu'. fit() takes sample weights. threads: at most, 0 for all cores; the result does not depend on it.
    """

    def fit(self, X, y, sample_weight=None):
        self._validate_params()
        X, y = validate_data(self, X, y, dtype=(np.float64, np.float32))
        check_classification_targets(y)
        self.classes_, labels = np.unique(y, return_inverse=True)
        self.out_activation_ = "softmax"
        return self._fit(X, labels.astype(np.int32), sample_weight, max(2, len(self.classes_)))

    @staticmethod
    def _losses(logits, labels):
        return -wr.take_along(wr.log_softmax(logits, -1), labels.expand_dims(1), 1).squeeze(1)

    def _score(self, X, labels, weight):
        return float(np.average(self._outputs(X).argmax(1) == labels, weights=weight if weight.sum() else None))

    def predict_proba(self, X):
        """The probability of each class, in the order of classes_."""
        outputs = self._outputs(self._checked(X))
        logits = outputs[:, :len(self.classes_)]
        e = np.exp(logits - logits.max(1, keepdims=True))
        return e / e.sum(1, keepdims=True)

    def predict_log_proba(self, X):
        return np.log(self.predict_proba(X))

    def predict(self, X):
        outputs = self._outputs(self._checked(X))
        return self.classes_[outputs[:, :len(self.classes_)].argmax(1)]


class MLPRegressor(RegressorMixin, _MLP):
    """A multi-layer perceptron with squared error; one target or several.

    The parameters are those of sklearn.neural_network.MLPRegressor; solver is 'adam' or 'sgd', activation also 'silu' or
    'gelu'. fit() takes sample weights. threads: at most, 0 for all cores; the result does not depend on it.
    """

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def fit(self, X, y, sample_weight=None):
        self._validate_params()
        X, y = validate_data(self, X, y, dtype=(np.float64, np.float32), multi_output=True, y_numeric=True)
        self._flat = y.ndim == 1
        self.out_activation_ = "identity"
        targets = y.reshape(len(y), -1).astype(X.dtype)
        return self._fit(X, targets, sample_weight, targets.shape[1])

    @staticmethod
    def _losses(out, y):
        return wr.square(out - y).mean(-1) * 0.5

    def _score(self, X, y, weight):
        error = np.average(((self._outputs(X) - y) ** 2).mean(1), weights=weight if weight.sum() else None)
        return 1 - float(error / max(y.var(axis=0).mean(), 1e-30))

    def predict(self, X):
        out = self._outputs(self._checked(X))
        return out[:, 0] if self._flat else out

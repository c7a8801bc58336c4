"""A metric inside a scikit-learn pipeline, its settings chosen by grid search.

Run: python examples/pipeline.py
"""

from __future__ import annotations

from sklearn.datasets import load_wine
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from nearer.estimators import LMNN

# %% Wines, of which four in ten are only looked at in the end
X, y = load_wine(return_X_y=True)
train, test, y_train, y_test = train_test_split(X, y, test_size=0.4, stratify=y, random_state=0)

# %% The metric is a step of the pipeline, so grid search chooses its settings
learned = make_pipeline(StandardScaler(), LMNN(random_state=0), KNeighborsClassifier(3))
search = GridSearchCV(learned, {"lmnn__n_components": [2, 4, 13], "lmnn__push": [0.3, 0.5]}, cv=3)
search.fit(train, y_train)
plain = make_pipeline(StandardScaler(), KNeighborsClassifier(3)).fit(train, y_train)

# %% Beside the same classifier on scaled features
mine, theirs = search.score(test, y_test), plain.score(test, y_test)
print(f"3-NN accuracy on new wines: {mine:.3f} learned with {search.best_params_}, {theirs:.3f} on scaled features")
assert mine >= theirs

"""The loop and the learners that stand in `training`, where estimators can use them too."""

from nearer.training._alternating import AlternatingLearner, Plan, alternate
from nearer.training._neighborhood_angular import BelievedAngular, NeighborhoodAngular

__all__ = ["AlternatingLearner", "BelievedAngular", "NeighborhoodAngular", "Plan", "alternate"]

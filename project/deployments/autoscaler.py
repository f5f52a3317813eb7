"""How many replicas a load needs: the rule of the Kubernetes Horizontal Pod Autoscaler.

A pure policy: called by the reconciler ``Autoscaler`` and by the demo, knows neither Django nor a clock.
"""

TOLERANCE = 0.1  # kube-controller-manager's --horizontal-pod-autoscaler-tolerance


def desired_replicas(
    *, replicas: int, load: int, target: int, minimum: int, maximum: int, tolerance: float = TOLERANCE
) -> int:
    """Return the number of replicas at which each gets its ``target`` share of ``load``.

    ``desired = ceil(replicas * (load / replicas) / target)``, kept between ``minimum`` and ``maximum``. As in
    Kubernetes, a deviation of at most ``tolerance`` from the target changes nothing, and 0 replicas mean that a
    person has switched the service off, which no load undoes.

    Args:
        replicas: how many are wanted now.
        load: what the whole service gets, in requests per second.
        target: what one replica should get, in requests per second.
        minimum: never fewer than this, at least 1.
        maximum: never more than this.
        tolerance: share of the target that the average may be off.

    Raises:
        ValueError: ``target`` or ``minimum`` is below 1, or ``maximum`` below ``minimum``.
    """
    if target < 1:
        raise ValueError(f"target must be 1 or more requests per second, not {target}.")
    if not 1 <= minimum <= maximum:
        raise ValueError(f"minimum must be from 1 to maximum, not {minimum} with a maximum of {maximum}.")
    if replicas == 0:
        return 0
    wanted = replicas
    if abs(load - replicas * target) > tolerance * replicas * target:
        wanted = -(-load // target)  # whole numbers: a ceil of floats would now and then be one too many
    return max(minimum, min(wanted, maximum))

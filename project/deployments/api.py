"""The HTTP API of both fleets: the guarded one answers with ETags and asks for If-Match, the other does neither."""

from typing import Any, TypeVar

from rest_framework import serializers, viewsets
from rest_framework.routers import DefaultRouter

from occ.rest_framework import OptimisticLockMixin
from project.deployments.models import Deployment, UnguardedDeployment, Workload

STATUS = ["template_hash", "updated_replicas", "ready_replicas", "revision", "scalings", "stepped_at"]
SPEC = [
    "name",
    "image",
    "template",
    "replicas",
    "min_replicas",
    "max_replicas",
    "target_load",
    "paused",
    "notes",
    "annotations",
    "observed_load",
]


W = TypeVar("W", bound=Workload)


class WorkloadSerializer(serializers.ModelSerializer[W]):
    """What both fleets have in common."""

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        """Refuse limits that exclude each other, also when only one of them is sent."""
        before = self.instance or UnguardedDeployment()
        limits = {name: attrs.get(name, getattr(before, name)) for name in ("min_replicas", "max_replicas")}
        if limits["min_replicas"] > limits["max_replicas"]:
            raise serializers.ValidationError({"max_replicas": "This must not be below min_replicas."})
        return attrs


class DeploymentSerializer(WorkloadSerializer[Deployment]):
    """A guarded deployment; its status is the controllers' to write."""

    class Meta:
        model = Deployment
        fields = ["id", "version", *SPEC, *STATUS]
        read_only_fields = STATUS


class UnguardedDeploymentSerializer(WorkloadSerializer[UnguardedDeployment]):
    """The same without a version."""

    class Meta:
        model = UnguardedDeployment
        fields = ["id", *SPEC, *STATUS]
        read_only_fields = STATUS


class DeploymentViewSet(OptimisticLockMixin, viewsets.ModelViewSet[Deployment]):
    """Services, safe to write from several clients at once."""

    queryset = Deployment.objects.all()
    serializer_class = DeploymentSerializer
    lookup_field = "name"


class UnguardedDeploymentViewSet(viewsets.ModelViewSet[UnguardedDeployment]):
    """Services as any API without preconditions has them: the last writer wins."""

    queryset = UnguardedDeployment.objects.all()
    serializer_class = UnguardedDeploymentSerializer
    lookup_field = "name"


router = DefaultRouter()
router.register("deployments", DeploymentViewSet)
router.register("unguarded-deployments", UnguardedDeploymentViewSet)

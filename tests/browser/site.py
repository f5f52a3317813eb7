"""The admin for the browser: the site of the other tests under a policy that allows no inline script or style."""

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse
from django.urls import path

from tests.occ.admin import site

urlpatterns = [*site.urlpatterns, path("favicon.ico", lambda request: HttpResponse(status=204))]


def strict_content_security_policy(
    get_response: Callable[[HttpRequest], HttpResponse],
) -> Callable[[HttpRequest], HttpResponse]:
    def middleware(request: HttpRequest) -> HttpResponse:
        response = get_response(request)
        response["Content-Security-Policy"] = "default-src 'self'"
        return response

    return middleware

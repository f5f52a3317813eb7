"""As ``settings``, with unfold, whose templates take the place of all of the admin's."""

from tests.occ.admin.composing.settings import *  # noqa: F403
from tests.occ.admin.composing.settings import INSTALLED_APPS as COMPOSED_APPS

INSTALLED_APPS = ["unfold", *COMPOSED_APPS]

from django.db import migrations

from occ.operations import AddVersionTrigger


class Migration(migrations.Migration):
    dependencies = [("triggers", "0001_initial")]

    operations = [AddVersionTrigger("gate")]

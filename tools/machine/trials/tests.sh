#!/bin/bash
# Tests of kernel/ and an application's own record of its waits, by Debian's uWSGI, on this kernel and architecture.
. "$(dirname "$0")/common.sh"
cd /srv/source/tests/kernel
printf '#!/bin/sh\nexec /usr/bin/uwsgi --plugin python3 "$@"\n' >/usr/local/bin/uwsgi
chmod +x /usr/local/bin/uwsgi
export PYTHONPATH=$(echo /opt/uwsgi-headroom/lib/python3.*/site-packages) PYTHONDONTWRITEBYTECODE=1
python -u -m pytest -v --maxfail=25 --tb=short -p no:cacheprovider waits stacks namespaces/test_pids.py \
    test_sock_diag.py test_backlogs.py test_proof.py test_roles.py test_processes.py test_shared_connections.py |
    sed -uE 's/^(\S+::.*) PASSED.*/ok - \1/; s/^(\S+::.*) (FAILED|ERROR).*/not ok - \1/'

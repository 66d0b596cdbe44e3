#!/bin/bash
# Tests of kernel/ by Debian's uWSGI, on this kernel and architecture: files or directories of it, or those about what
# threads wait for, stacks, sockets and PIDs. A test that hangs ends its process alone (-n 1).
. "$(dirname "$0")/common.sh"
chosen=${*:-stacks waits test_sock_diag.py test_backlogs.py test_proof.py namespaces test_roles.py test_processes.py}
cd /srv/source/tests/kernel
printf '#!/bin/sh\nexec /usr/bin/uwsgi --plugin python3 "$@"\n' >/usr/local/bin/uwsgi
chmod +x /usr/local/bin/uwsgi
export PYTHONPATH=$(echo /opt/uwsgi-headroom/lib/python3.*/site-packages)
python -u -m pytest -v -n 1 -rs --tb=short -p no:cacheprovider $chosen |
    sed -uE 's/^\[gw.*\] PASSED (\S+::.*)/ok - \1/; s/^\[gw.*\] (FAILED|ERROR) (\S+::.*)/not ok - \2/; /^\S+::\S+/d'

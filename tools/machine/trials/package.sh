#!/bin/bash
# In a root, without a boot: the README's installation, as an ordinary user; then the Debian package in dist/, which is
# installed over an older one with another configuration, serves, is removed and purged.
. "$(dirname "$0")/common.sh"
lines=$(sed -n '/^python3 -m venv/,/^sudo/{/^sudo/d; s/ *#.*//;p}' /srv/source/README.md)
deb=$(find /srv/dist -name 'uwsgi-headroom_*_amd64.deb' | sort | tail -n 1)
modules=/usr/lib/uwsgi-headroom config=/etc/uwsgi-headroom/uwsgi-headroom.yml state=/var/lib/private/uwsgi-headroom
apt='env DEBIAN_FRONTEND=noninteractive apt-get -qq -y --no-install-recommends'
offline='-o Acquire::http::Proxy=http://127.0.0.1:1 -o Acquire::https::Proxy=http://127.0.0.1:1'
export lines deb version modules config state
http=$((20000 + RANDOM % 5000)) port=$((25000 + RANDOM % 5000))

printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d
chmod +x /usr/sbin/policy-rc.d
rm -f /etc/dpkg/dpkg.cfg.d/docker # it would leave out manual pages
expect "what the trial needs is installed" 0 \
    "$apt install git python3-venv man-db fish zsh uwsgi-core uwsgi-plugin-python3"
expect "git clone" 0 'as_visitor "git clone --quiet /srv/source.git uwsgi-headroom"'
expect "the README's installation" 0 'as_visitor "set -e; cd uwsgi-headroom; $lines; ~/headroom/bin/uwsgi-headroom --version" | grep "^uwsgi-headroom [0-9]"'

expect "there is a package in dist/: make deb" 0 '[ -n "$deb" ]' || exit
version=$(dpkg-deb -f "$deb" Version)
dpkg-deb -R "$deb" /srv/older
sed -i 's/^Version:.*/Version: 0.0.1/' /srv/older/DEBIAN/control
sed -i '1i # of the older version' "/srv/older$config"
touch "/srv/older$modules/uwsgi_headroom/of_the_older_version.py"
dpkg-deb -Zgzip -z1 --root-owner-group -b /srv/older /srv/older.deb >/dev/null
expect "an older one is installed without a network" 0 "$apt $offline install /srv/older.deb"
echo '# changed by the administrator' >>$config
expect "it is upgraded" 0 "$apt $offline -o Dpkg::Options::=--force-confold install $deb"
expect "the administrator's configuration stays" 0 'tail -n 1 $config | grep changed && [ -f $config.dpkg-dist ]'
expect "nothing is left of the older one" 0 '! find $modules -name "of_the_older*" | grep .'
expect "its version" 0 '[ "$(uwsgi-headroom --version)" = "uwsgi-headroom $version" ]'
expect "its manual" 0 'man uwsgi-headroom | grep SYNOPSIS && man uwsgi-headroom-check | grep SYNOPSIS'
expect "its modules are compiled" 0 'cd $modules && find . -name "*.py" -printf "%h/__pycache__/%f\n" | sed "s/py$//" |
    while read -r each; do compgen -G "${each}cpython-*.pyc" || { echo "not $each"; break; }; done | grep "^not" && exit 1; :'
expect "bash completes" 0 '. /usr/share/bash-completion/completions/uwsgi-headroom
    COMP_WORDS=(uwsgi-headroom ch) COMP_CWORD=1; _uwsgi_headroom; echo ${COMPREPLY[@]} | grep check'
expect "fish completes" 0 'fish -c "complete -C \"uwsgi-headroom ch\"" | grep check'
expect "zsh completes" 0 "zsh -c 'autoload -Uz compinit; compinit -D -u; echo \$_comps[uwsgi-headroom]' | grep ."

# What systemd would make for DynamicUser= and StateDirectory=, and its ExecStart= as an unprivileged user.
install -d -o www-data /run/uwsgi
install -d -m 755 /var/lib/private
install -d -o nobody $state
ln -s private/uwsgi-headroom /var/lib/uwsgi-headroom
as() { setpriv --reuid "$1" --regid www-data --clear-groups --no-new-privs "${@:2}"; }
as www-data uwsgi-core --plugin python3 --master --processes 2 --wsgi-file "$here/app.py" --die-on-term \
    --http-socket 127.0.0.1:$http --stats /run/uwsgi/shop.stats --chmod-socket=660 >/dev/null 2>&1 &
UWSGI_HEADROOM_HISTORY=$state/history.sqlite UWSGI_HEADROOM_WEB_LISTEN_ADDRESS=127.0.0.1:$port \
    as nobody $(sed -n 's/^ExecStart=//p' $modules/../systemd/system/uwsgi-headroom.service) >/dev/null 2>&1 &
expect "uWSGI answers" 60 "get $http / | grep ok"
expect "it is up" 60 "get $port /metrics | grep '^uwsgi_up{.*} 1'"
before=$(counted $port)
for _ in $(seq 37); do get $http / >/dev/null; done
expect "37 requests are counted" 60 "[ \$((\$(counted $port) - $before)) = 37 ]"
expect "a history is written" 60 '[ -f $state/history.sqlite ]'
kill $(jobs -p)
wait

expect "it is removed" 0 "$apt remove uwsgi-headroom"
expect "configuration and history stay" 0 '! [ -e $modules ] && [ -f $config ] && [ -f $state/history.sqlite ]'
expect "it is purged" 0 "$apt purge uwsgi-headroom"
expect "nothing is left" 0 '! ls -d ${config%/*} $state /var/lib/uwsgi-headroom $modules 2>/dev/null | grep . &&
    ! find /etc/systemd -name "*uwsgi-headroom*" | grep .'

# Finishes an image whose packages of Debian are installed: $1 is its root directory. Runs outside of
# it, as root or as the first user of a user namespace. What it works with was put into /tmp/cofferdam
# of the image, and is gone when it ends, with everything that is the building machine's business.
set -eu
root=$1
work=$root/tmp/cofferdam

# Packages of npm, as they were installed outside: nothing but files.
if [ -d "$work/node" ]; then
    mkdir -p "$root/usr/local/lib" "$root/usr/local/bin"
    mv "$work/node" "$root/usr/local/lib/cofferdam"
    for link in "$work/bin"/*; do
        [ ! -L "$link" ] || mv "$link" "$root/usr/local/bin/"
    done
    chown -R -h 0:0 "$root/usr/local"
fi

# Packages of Python. Only wheels, so that none of them runs anything; and pip is a user whom nobody
# else is, without any right.
if [ -s "$work/requirements.txt" ]; then
    rm -f "$root"/usr/lib/python3*/EXTERNALLY-MANAGED
    chmod 755 "$root/tmp" "$work"
    chown -R -h "$COFFERDAM_USER:$COFFERDAM_USER" "$work" "$root/usr/local"
    echo 'cofferdam: packages of Python'
    chroot "$root" /usr/bin/setpriv --reuid "$COFFERDAM_USER" --regid "$COFFERDAM_USER" \
        --clear-groups --no-new-privs --inh-caps=-all --bounding-set=-all \
        /usr/bin/env -u PYTHONPATH -u PYTHONHOME HOME=/tmp/cofferdam/home TMPDIR=/tmp/cofferdam \
        XDG_CONFIG_DIRS=/tmp/cofferdam/etc PYTHONNOUSERSITE=1 PYTHONDONTWRITEBYTECODE=1 \
        /usr/bin/python3 -m pip install --no-cache-dir --no-input --no-warn-script-location \
        --disable-pip-version-check --only-binary=:all: --progress-bar=off --no-user \
        --requirement=/tmp/cofferdam/requirements.txt --constraint=/tmp/cofferdam/constraints.txt
    chown -R -h 0:0 "$root/usr/local"
fi
echo 'cofferdam: cleaning'
rm -rf "$root/tmp/cofferdam"
chmod 1777 "$root/tmp"

# Where packages came from, and who made this image where.
rm -rf "$root"/etc/apt/sources.list "$root"/etc/apt/sources.list.d/* \
    "$root"/etc/apt/apt.conf.d/99mmdebstrap "$root"/etc/dpkg/dpkg.cfg.d/99mmdebstrap \
    "$root"/etc/apt/auth.conf "$root"/etc/apt/auth.conf.d/* \
    "$root"/var/lib/apt/lists/* "$root"/var/cache/apt/* "$root"/var/cache/debconf/*-old \
    "$root"/var/lib/dpkg/*-old "$root"/var/log/* "$root"/boot/* \
    "$root"/etc/*- "$root"/usr/share/info/* "$root"/var/lib/systemd/*
find "$root"/root -mindepth 1 -maxdepth 1 -name '.*' -exec rm -rf {} +
for file in resolv.conf hostname machine-id hosts; do
    rm -f "$root/etc/$file"
    : > "$root/etc/$file"
done

# No program in it is anybody else than who runs it.
find "$root" -xdev -type f -perm /6000 -exec chmod a-s {} +
find "$root" -xdev -type d -perm /6000 -exec chmod a-s {} +

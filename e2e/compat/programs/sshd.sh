# Starts sshd and two logins to it over loopback: one without a terminal, one with.
set -e
exec >/tmp/start.out 2>&1
mkdir -p /run/sshd -m 755
for key in host user; do ssh-keygen -q -t ed25519 -N '' -f /tmp/$key; done
cp /tmp/user.pub /tmp/allowed
/usr/sbin/sshd -f /dev/null -E /tmp/server.out -h /tmp/host -o Port=2222 -o ListenAddress=127.0.0.1 -o PidFile=/tmp/sshd.pid \
	-o UsePAM=no -o StrictModes=no -o AuthorizedKeysFile=/tmp/allowed -o PermitRootLogin=yes
until [ -e /tmp/sshd.pid ]; do sleep 0.05; done
mkfifo /tmp/plain /tmp/typed
exec 3<>/tmp/plain 4<>/tmp/typed
ssh="ssh -F none -i /tmp/user -p 2222 -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR root@127.0.0.1"
$ssh 'n=0; while read line; do n=$((n+1)); echo "$line $n $$ $SSH_CONNECTION"; done' <&3 >/tmp/plain.out 2>&1 &
$ssh -tt 'stty -echo; n=0; while read line; do n=$((n+1)); echo "$line $n $$ $(tty)" >/dev/tty; done' <&4 >/tmp/typed.out 2>&1 &
wait

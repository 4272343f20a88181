# Ends the process groups that are left when ichido is gone. It is told "expected MARK" before a program begins, "begun GROUP MARK"
# when it has (or "failed MARK"), and "ended GROUP". What has begun in ichido's last moment is found by the mark in its environment.
groups=' ' expected=' '
while read -r what name mark; do
    case $what in
    expected) expected="$expected$name " ;;
    begun)
        groups="$groups$name "
        expected="${expected%% "$mark" *} ${expected#* "$mark" }"
        ;;
    failed) expected="${expected%% "$name" *} ${expected#* "$name" }" ;;
    ended) groups="${groups%% "$name" *} ${groups#* "$name" }" ;;
    esac
done
for mark in $expected; do
    for about in $(grep -lsazx "ICHIDO_EXECUTION_ID=$mark" /proc/[0-9]*/environ); do
        about=${about#/proc/}
        groups="$groups${about%/environ} "
    done
done
for group in $groups; do
    kill -s KILL -- "-$group"
done

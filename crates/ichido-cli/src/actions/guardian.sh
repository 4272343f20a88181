# Ends the process groups that are left when ichido is gone. It is told "begun GROUP" and "ended GROUP".
groups=' '
while read -r what group; do
    case $what in
    begun) groups="$groups$group " ;;
    ended) groups="${groups%% "$group" *} ${groups#* "$group" }" ;;
    esac
done
for group in $groups; do
    kill -s KILL -- "-$group"
done

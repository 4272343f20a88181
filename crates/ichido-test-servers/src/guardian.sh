# Guards one server and its folder: sh -c <this> guardian <folder> <signal>.
# The test process holds the other end of our standard input, and its orders
# arrive there, one per line, each answered by one line. When the test process
# is gone, however it went, the input ends: then the server gets the signal,
# and the folder is removed.

folder=$1
end_signal=$2
log=$folder/log
pid=

# A signal must lead to the clean-up below, not past it. Caught, not ignored:
# an ignored signal would stay ignored in the server.
trap : HUP INT TERM PIPE

while read -r order words; do
    case $order,${pid:+running} in
    run,*) # a command, to its end; answers its exit code
        (eval "exec $words") >>"$log" 2>&1 </dev/null
        echo "$?"
        ;;
    start,) # the server; answers its process id
        eval "exec $words" >>"$log" 2>&1 </dev/null &
        pid=$!
        echo "$pid"
        ;;
    stop,running) # by the signal named; answers when it has ended
        kill -s "$words" "$pid" 2>/dev/null
        wait "$pid" 2>/dev/null
        pid=
        echo stopped
        ;;
    freeze,running) # it stands still until it is killed
        kill -s STOP "$pid"
        echo frozen
        ;;
    kill,running) # the server and its children; answers the children's process ids
        # Stopped first, so that no child is born between the look and the kill.
        kill -s STOP "$pid"
        children=$(cat "/proc/$pid/task/$pid/children" 2>/dev/null)
        kill -s KILL "$pid" $children 2>/dev/null
        wait "$pid" 2>/dev/null
        pid=
        echo "$children"
        ;;
    *)
        echo "refused: the server is ${pid:+already started, as }${pid:-not started}"
        ;;
    esac
done

cd /
if [ -n "$pid" ]; then
    # More than once: a server that has only just been started may not hear it
    # yet. And one that a test has left stopped hears nothing before CONT.
    (
        for try in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
            kill -s "$end_signal" "$pid" && kill -s CONT "$pid" || exit
            sleep 0.5
        done
        kill -s KILL "$pid"
    ) 2>/dev/null &
    again=$!
    wait "$pid" 2>/dev/null
    kill "$again" 2>/dev/null
fi
# Children of a server that was killed from outside may still be writing for a moment.
for try in 1 2 3 4 5 6 7 8 9 10; do
    rm -rf "$folder" 2>/dev/null && break
    sleep 0.2
done

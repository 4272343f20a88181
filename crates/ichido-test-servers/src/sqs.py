"""LocalStack, with a rule of Amazon's that it does not have: while a message of a group is out of sight, no other message of that group is
handed out. LocalStack hands out the group as soon as any message of it is visible again, and so one that overtakes another."""

from localstack.runtime.main import main
from localstack.services.sqs.models import FifoQueue

put_as_localstack_does = FifoQueue._put_message


def put(queue, message):
    with queue.mutex:
        group = queue.get_message_group(message.message_group_id)
        if message.receive_count < 1 or group not in queue.inflight_groups:
            put_as_localstack_does(queue, message)
        else:
            group.push(message)
            queue.update_message_group_visibility(group)


FifoQueue._put_message = put
main()

-- Odoo's mail: `outgoing` is new; `received` came from outside and is nothing to be sent.
create table mail_mail (
    id serial primary key, mail_message_id integer not null, email_to text, email_cc varchar, body_html text, state varchar, failure_type varchar,
    failure_reason text, auto_delete boolean, scheduled_date timestamp, create_date timestamp);
insert into mail_mail (mail_message_id, state) values (1, 'outgoing'), (2, 'sent'), (3, 'received'), (4, 'exception'), (5, 'cancel');

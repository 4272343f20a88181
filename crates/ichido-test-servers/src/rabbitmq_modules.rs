//! Lets a node load its code in one go. By itself it looks for each of its
//! thousand modules in all folders, and links them one by one: 7 s of a
//! processor where 3 s do. Many nodes are started in a run of the tests.

/// What a node loads anyway, sooner or later. What is not installed is left out.
const APPLICATIONS: &str = "kernel,stdlib,sasl,compiler,syntax_tools,tools,crypto,asn1,public_key,ssl,inets,os_mon,xmerl,\
    mnesia,rabbit,rabbit_common,rabbitmq_prelaunch,ra,osiris,ranch,cuttlefish,aten,gen_batch_server,seshat,enough,jsx,\
    amqp10_common,credentials_obfuscation,sysmon_handler,syslog,systemd,stdout_formatter,recon,observer_cli";

/// And what the management API needs.
const MANAGEMENT: &str =
    ",rabbitmq_management,rabbitmq_management_agent,rabbitmq_web_dispatch,amqp_client,cowboy,cowlib";

/// An expression without a space or a quotation mark, which would not survive the way through the environment: the list of
/// numbers is `"*.beam"`.
pub(super) fn load_at_once(with_management: bool) -> String {
    let more = if with_management { MANAGEMENT } else { "" };
    format!(
        "code:ensure_modules_loaded([list_to_atom(filename:rootname(filename:basename(File)))||\
         Application<-[{APPLICATIONS}{more}],Folder<-[code:lib_dir(Application)],is_list(Folder),\
         File<-filelib:wildcard(filename:join([Folder,ebin,[42,46,98,101,97,109]]))])."
    )
}

//! The words by which people name statuses, owners and their values, in English and Japanese. The order is the order of
//! preference. Whoever misses a word adds it here; what is not here is never guessed to be sure.

/// Words for the values of a status: those that say it, and those that may also mean something else.
struct Words {
    plain: &'static str,
    perhaps: &'static str,
}

/// A row that nobody has processed.
const NEW: Words = Words {
    plain: "new unprocessed not_processed pending queued todo unsent not_sent 未処理 新規 未着手 未実施 未送信 未連携",
    perhaps: "ready waiting wait open received created initial init outgoing submitted no n false 0 未 受付 待ち",
};

/// A row that is done.
const DONE: Words = Words {
    plain: "done processed completed complete finished success succeeded successful sent \
        処理済 処理済み 完了 正常終了 送信済 連携済 実施済",
    perhaps: "ok closed delivered yes y d true 1 済 正常",
};

/// A row that has failed for good.
const FAILED: Words = Words {
    plain: "failed failure fail error err 失敗 エラー 異常終了",
    perhaps: "ng exception dead aborted rejected e f 2 9 異常",
};

/// A row that is none of these: what ichido's owner column says, what is not ready yet, or what somebody gave up.
const OTHER: Words = Words {
    plain: "processing in_progress inprogress running working started locked claimed draft cart cancelled canceled cancel \
        deleted skipped paused on_hold expired 処理中 実行中 取消 キャンセル 保留",
    perhaps: "",
};

const STATUS: &str = "status state ステータス 状態 処理状態 処理ステータス 処理状況";
const STATUS_PARTS: &str = "status state stat sts";
const STATUS_ENDS: &str = "ステータス 状態 状況";
const FLAG_PARTS: &str = "processed done completed handled finished flag flg";
const FLAG_ENDS: &str = "処理済 処理済み 完了 フラグ 区分";

/// What says in the name of a column that a row is done, and what turns it into its opposite.
const DONE_PARTS: &str = "processed done completed handled finished sent delivered";
const DONE_ENDS: &str = "処理済 処理済み 完了";
const NOT_PARTS: &str = "not no un to be never";

const OWNER: Words = Words {
    plain: "process_id processid locked_by lock_owner プロセスid プロセス_id 処理プロセスid 占有者",
    perhaps: "owner owner_id claimed_by worker_id worker 所有者",
};

/// What a value probably means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Meaning {
    New,
    Done,
    Failed,
    Other,
}

/// A word that is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Known {
    /// How usual it is (0: the most).
    pub(super) place: usize,
    /// Can it hardly mean anything else?
    pub(super) plain: bool,
}

impl Words {
    fn find(&self, word: &str) -> Option<Known> {
        let plain = place(self.plain, word).map(|place| Known { place, plain: true });
        plain.or_else(|| place(self.perhaps, word).map(|place| Known { place: place + 100, plain: false }))
    }
}

/// What a value means.
pub(super) fn meaning(value: &str) -> Option<(Meaning, Known)> {
    let word = value.trim().to_lowercase().replace([' ', '-'], "_");
    let all = [(Meaning::New, NEW), (Meaning::Done, DONE), (Meaning::Failed, FAILED), (Meaning::Other, OTHER)];
    all.into_iter().find_map(|(meaning, words)| Some((meaning, words.find(&word)?)))
}

/// How much the name of a column sounds like a status (0: the most).
pub(super) fn sounds_like_status(name: &str) -> Option<u8> {
    let name = name.to_lowercase();
    match () {
        () if place(STATUS, &name).is_some() => Some(0),
        () if part(&name, STATUS_PARTS) || end(&name, STATUS_ENDS) => Some(1),
        () if part(&name, FLAG_PARTS) || end(&name, FLAG_ENDS) => Some(2),
        () => None,
    }
}

/// Does the name of a column say that a row is done, if the column says yes or has a value?
pub(super) fn says_done(name: &str) -> bool {
    let name = name.to_lowercase();
    (part(&name, DONE_PARTS) || end(&name, DONE_ENDS)) && !part(&name, NOT_PARTS)
}

/// Does the name of a column sound like an owner?
pub(super) fn sounds_like_owner(name: &str) -> Option<Known> {
    OWNER.find(&name.to_lowercase().replace([' ', '-'], "_"))
}

fn part(name: &str, words: &str) -> bool {
    parts(name).any(|part| place(words, part).is_some())
}

fn end(name: &str, ends: &str) -> bool {
    ends.split_whitespace().any(|end| name.ends_with(end))
}

/// Where a word stands in a list.
fn place(words: &str, word: &str) -> Option<usize> {
    words.split_whitespace().position(|known| known == word)
}

fn parts(name: &str) -> impl Iterator<Item = &str> {
    name.split(|c: char| !c.is_alphanumeric())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_mean_what_people_mean_by_them() {
        let means = |value| meaning(value).map(|(meaning, _)| meaning);
        for (value, meant) in [
            ("0", Meaning::New),
            ("NEW", Meaning::New),
            ("Not Processed", Meaning::New),
            ("未処理", Meaning::New),
            ("1", Meaning::Done),
            ("処理済", Meaning::Done),
            ("9", Meaning::Failed),
            ("ERROR ", Meaning::Failed),
            ("in-progress", Meaning::Other),
        ] {
            assert_eq!(means(value), Some(meant), "{value}");
        }
        assert_eq!(means("CA"), None);
        assert!(meaning("pending").unwrap().1.plain && !meaning("open").unwrap().1.plain);
    }

    #[test]
    fn columns_sound_like_what_they_are() {
        assert_eq!(sounds_like_status("STATUS"), Some(0));
        assert_eq!(sounds_like_status("処理状態"), Some(0));
        assert_eq!(sounds_like_status("order_status_cd"), Some(1));
        assert_eq!(sounds_like_status("is_processed"), Some(2));
        assert_eq!(sounds_like_status("estate_agent"), None);
        assert!(sounds_like_owner("PROCESS_ID").unwrap().plain && sounds_like_owner("locked_by").unwrap().plain);
        assert!(!sounds_like_owner("owner").unwrap().plain, "who has a ticket is a person");
        assert_eq!(sounds_like_owner("customer"), None);
        assert!(says_done("is_processed") && says_done("Finished_At"));
        assert!(!says_done("not_processed") && !says_done("to_be_sent") && !says_done("delete_flag"));
    }
}

//! The words by which people name statuses, owners and their values, in English and Japanese. The order is the order of
//! preference. Whoever misses a word adds it here; what is not here is never guessed to be sure.

/// A row that nobody has processed.
const NEW: &str = "new unprocessed not_processed pending ready queued waiting wait open todo received created initial init \
    unsent no n false 0 未処理 未 新規 受付 未着手 未実施 未送信 未連携 待ち";

/// A row that is done.
const DONE: &str = "done processed completed complete finished success succeeded successful ok closed sent yes y d true 1 \
    処理済 処理済み 済 完了 正常 正常終了 送信済 連携済 実施済";

/// A row that has failed for good.
const FAILED: &str = "failed failure fail error err ng dead aborted rejected e f 2 9 失敗 エラー 異常 異常終了";

/// A row that is none of these: what ichido's owner column says, or what somebody gave up.
const OTHER: &str = "processing in_progress inprogress running working started locked claimed cancelled canceled deleted \
    skipped on_hold 処理中 実行中 取消 キャンセル 保留";

const STATUS: &str = "status state ステータス 状態 処理状態 処理ステータス 処理状況";
const STATUS_PARTS: &str = "status state stat sts";
const STATUS_ENDS: &str = "ステータス 状態 状況";
const FLAG_PARTS: &str = "processed done completed handled finished flag flg";
const FLAG_ENDS: &str = "処理済 処理済み 完了 フラグ 区分";

const OWNER: &str = "process_id processid owner owner_id locked_by claimed_by lock_owner worker_id worker \
    プロセスid プロセス_id 処理プロセスid 所有者 占有者";

/// What a value probably means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Meaning {
    New,
    Done,
    Failed,
    Other,
}

/// What a value means, and how usual a word for it it is (0: the most).
pub(super) fn meaning(value: &str) -> Option<(Meaning, usize)> {
    let word = value.trim().to_lowercase().replace([' ', '-'], "_");
    let find = |words: &str| place(words, &word);
    let all = [(Meaning::New, NEW), (Meaning::Done, DONE), (Meaning::Failed, FAILED), (Meaning::Other, OTHER)];
    all.into_iter().find_map(|(meaning, words)| Some((meaning, find(words)?)))
}

/// How much the name of a column sounds like a status (0: the most).
pub(super) fn sounds_like_status(name: &str) -> Option<u8> {
    let name = name.to_lowercase();
    let part = |words: &str| parts(&name).any(|part| place(words, part).is_some());
    let end = |ends: &str| ends.split_whitespace().any(|end| name.ends_with(end));
    match () {
        () if place(STATUS, &name).is_some() => Some(0),
        () if part(STATUS_PARTS) || end(STATUS_ENDS) => Some(1),
        () if part(FLAG_PARTS) || end(FLAG_ENDS) => Some(2),
        () => None,
    }
}

/// Does the name of a column sound like an owner? How usual it is (0: the most).
pub(super) fn sounds_like_owner(name: &str) -> Option<usize> {
    let name = name.to_lowercase().replace([' ', '-'], "_");
    place(OWNER, &name)
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
    }

    #[test]
    fn columns_sound_like_what_they_are() {
        assert_eq!(sounds_like_status("STATUS"), Some(0));
        assert_eq!(sounds_like_status("処理状態"), Some(0));
        assert_eq!(sounds_like_status("order_status_cd"), Some(1));
        assert_eq!(sounds_like_status("is_processed"), Some(2));
        assert_eq!(sounds_like_status("estate_agent"), None);
        assert_eq!(sounds_like_owner("PROCESS_ID"), Some(0));
        assert!(sounds_like_owner("locked_by").is_some());
        assert_eq!(sounds_like_owner("customer"), None);
    }
}

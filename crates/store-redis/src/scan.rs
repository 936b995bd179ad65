//! Pages of a snapshot (ST-5, ST-35).
//!
//! The first page takes a number of the sequence: the high water. What a record was at that moment is its member with
//! the highest score up to it, and pruning keeps such members while the snapshot lives. Each page lists keys of the
//! index in one command and reads their members in another, so Redis is never busy for longer than a part of a page.

use std::time::Duration;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use fred::types::Value;
use ring::digest::{SHA256, digest};
use spotlane_store::{
    Cursor, KeyPrefix, PageBuilder, Row, ScanOutcome, ScanRequest, StoreError, StoreKey, StoreTime,
};
use tokio::time::Instant;

use crate::encode::{decimal, of_read, problem_of, text, time, unexpected};
use crate::link::Link;
use crate::member::Member;

/// How long a snapshot lives after its last page.
pub(crate) const IDLE_LIFE: Duration = Duration::from_secs(30);
/// How long a snapshot lives at most, however busy its scan is.
pub(crate) const WHOLE_LIFE: Duration = Duration::from_mins(10);
/// Most snapshots of one domain. A further one ends the one whose deadline is next.
pub(crate) const SNAPSHOTS_MAX: usize = 64;
/// Most records of one command.
const CHUNK_RECORDS_MAX: usize = 250;
/// Most commands of one page. Records that came or went after the snapshot are in the index but not in the page; a page
/// that meets many of them ends early.
const CHUNKS_MAX: usize = 8;
const DIGEST_BYTES: usize = 16;

/// A snapshot, as its cursor carries it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Snapshot {
    high: u64,
    moment: StoreTime,
}

impl Snapshot {
    fn name(self) -> Bytes {
        Bytes::from(format!("{}:{}", self.high, self.moment.as_unix_millis()))
    }
}

/// Whether a lost snapshot is the scan's end or only costs us another try.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Position {
    First,
    Later,
}

/// One page.
pub(crate) async fn scan(link: &Link, request: &ScanRequest) -> Result<ScanOutcome, StoreError> {
    let deadline = link.deadline();
    if let Some(cursor) = request.cursor() {
        let Some((snapshot, after)) = read_cursor(link, request.prefix(), cursor) else {
            return Ok(ScanOutcome::Expired);
        };
        let walk = Walk::new(link, request, snapshot, Position::Later, deadline);
        return Ok(walk
            .fill(None, Some(after))
            .await?
            .unwrap_or(ScanOutcome::Expired));
    }
    // The answer that ended a snapshot of a single page may be lost, and the repeat finds none: begin again.
    for _ in 0..CHUNKS_MAX {
        let (snapshot, keys) = open(link, request, deadline).await?;
        let walk = Walk::new(link, request, snapshot, Position::First, deadline);
        if let Some(outcome) = walk.fill(Some(keys), None).await? {
            return Ok(outcome);
        }
    }
    Err(StoreError::transient(
        "the snapshot was lost before its first page was read",
    ))
}

async fn open(
    link: &Link,
    request: &ScanRequest,
    deadline: Instant,
) -> Result<(Snapshot, Vec<StoreKey>), StoreError> {
    let (from, to) = range(request.prefix(), None);
    let domain = &link.domain;
    let keys = [&domain.sequence, &domain.index, &domain.scans].map(Bytes::clone);
    let arguments = [
        Bytes::from(IDLE_LIFE.as_millis().to_string()),
        decimal(SNAPSHOTS_MAX),
        from,
        to,
        decimal(chunk(request.limit()) + 1),
    ];
    let answer = link
        .read(&link.scripts.open, &keys, &arguments, deadline)
        .await?;
    let mut parts = answer.into_array().into_iter();
    let high = parts
        .next()
        .and_then(|high| high.as_string())
        .unwrap_or_default();
    let Some(moment) = parts.next() else {
        return Err(crate::classify::returned(&high, ""));
    };
    let high = high
        .parse()
        .map_err(|_| of_read(unexpected("a high water")))?;
    let moment = time(Some(&moment)).map_err(of_read)?;
    Ok((Snapshot { high, moment }, keys_of(parts)?))
}

/// The filling of one page.
struct Walk<'a> {
    link: &'a Link,
    request: &'a ScanRequest,
    snapshot: Snapshot,
    position: Position,
    deadline: Instant,
    page: PageBuilder,
}

impl<'a> Walk<'a> {
    fn new(
        link: &'a Link,
        request: &'a ScanRequest,
        snapshot: Snapshot,
        position: Position,
        deadline: Instant,
    ) -> Self {
        let page = PageBuilder::new(request);
        Self {
            link,
            request,
            snapshot,
            position,
            deadline,
            page,
        }
    }

    /// Fills the page from keys that are listed already, or from those after a key. `None`: the snapshot is lost.
    async fn fill(
        mut self,
        mut listed: Option<Vec<StoreKey>>,
        mut after: Option<StoreKey>,
    ) -> Result<Option<ScanOutcome>, StoreError> {
        for chunk_number in 1..=CHUNKS_MAX {
            let most = chunk(self.page.room_rows());
            let mut keys = match listed.take() {
                Some(keys) => keys,
                None => self.list(after.as_ref(), most + 1).await?,
            };
            // One more key than wanted was asked for, to know whether this is the end.
            let is_end = keys.len() <= most;
            keys.truncate(most);
            let wanted = keys.len();
            let Some((read, now)) = self.members(&keys, is_end).await? else {
                return Ok(None);
            };
            let mut taken = 0;
            for (key, member) in keys.into_iter().zip(read) {
                let row = member.filter(|member| member.is_live(self.snapshot.moment));
                if let Some(member) = row
                    && self.page.push(row_of(key.clone(), member)).is_err()
                {
                    break;
                }
                taken += 1;
                after = Some(key);
            }
            if is_end && taken == wanted {
                return Ok(Some(ScanOutcome::Page(self.page.finish(None, now))));
            }
            if taken < wanted || self.page.is_full() || chunk_number == CHUNKS_MAX {
                let Some(after) = after else {
                    return Err(of_read(unexpected("a row that fits into a page")));
                };
                let cursor = write_cursor(self.link, self.request.prefix(), self.snapshot, &after)?;
                return Ok(Some(ScanOutcome::Page(self.page.finish(Some(cursor), now))));
            }
        }
        Err(of_read(unexpected("an end of the page")))
    }

    async fn list(
        &self,
        after: Option<&StoreKey>,
        count: usize,
    ) -> Result<Vec<StoreKey>, StoreError> {
        let (from, to) = range(self.request.prefix(), after);
        let keys = [self.link.domain.index.clone()];
        let arguments = [from, to, decimal(count)];
        let list = &self.link.scripts.list;
        let answer = self
            .link
            .read(list, &keys, &arguments, self.deadline)
            .await?;
        keys_of(answer.into_array().into_iter())
    }

    /// What the snapshot sees of these records, as far as it fits. `None`: the snapshot is lost.
    async fn members(
        &self,
        keys: &[StoreKey],
        is_end: bool,
    ) -> Result<Option<(Vec<Option<Member>>, StoreTime)>, StoreError> {
        let mut names = vec![self.link.domain.scans.clone()];
        names.extend(keys.iter().map(|key| self.link.domain.record(key)));
        let whole = u64::try_from(WHOLE_LIFE.as_millis()).unwrap_or(u64::MAX);
        let last = self.snapshot.moment.as_unix_millis().saturating_add(whole);
        let then = match (is_end, self.position) {
            (false, _) => "more",
            (true, Position::First) => "only",
            (true, Position::Later) => "end",
        };
        let arguments = [
            self.snapshot.name(),
            Bytes::from(self.snapshot.high.to_string()),
            Bytes::from(IDLE_LIFE.as_millis().to_string()),
            Bytes::from(last.to_string()),
            decimal(self.page.room_bytes()),
            text(then),
        ];
        let page = &self.link.scripts.page;
        let answer = self
            .link
            .read(page, &names, &arguments, self.deadline)
            .await?;
        if answer.is_null() {
            return Ok(None);
        }
        let mut parts = answer.into_array().into_iter();
        let now = time(parts.next().as_ref()).map_err(of_read)?;
        let members = keys.iter().zip(parts).map(|(key, part)| match part {
            Value::Null => Ok(None),
            Value::Array(problem) => Err(problem_of(&problem, key)),
            bytes => {
                let bytes = bytes
                    .into_bytes()
                    .ok_or_else(|| of_read(unexpected("a member")))?;
                Member::decode(key, &bytes).map(Some)
            }
        });
        Ok(Some((members.collect::<Result<_, _>>()?, now)))
    }
}

fn row_of(key: StoreKey, member: Member) -> Row {
    let Member {
        value,
        version,
        expires_at,
        ..
    } = member;
    Row {
        key,
        value,
        version,
        expires_at,
    }
}

fn chunk(rows: usize) -> usize {
    rows.min(CHUNK_RECORDS_MAX)
}

/// The range of the index, in the words of ZRANGEBYLEX. No UTF-8 text holds the byte FF, so it ends a prefix.
fn range(prefix: &KeyPrefix, after: Option<&StoreKey>) -> (Bytes, Bytes) {
    let from = match after {
        Some(key) => [b"(", key.as_str().as_bytes()].concat(),
        None => [b"[", prefix.as_str().as_bytes()].concat(),
    };
    let to = [b"(", prefix.as_str().as_bytes(), b"\xff"].concat();
    (from.into(), to.into())
}

fn keys_of(parts: impl Iterator<Item = Value>) -> Result<Vec<StoreKey>, StoreError> {
    parts
        .map(|part| {
            let bytes = part.into_bytes().unwrap_or_default();
            StoreKey::from_utf8(&bytes)
                .map_err(|_| StoreError::permanent("the index of the store holds what is no key"))
        })
        .collect()
}

/// High water, moment, digest, last key. The digest binds the cursor to this store and to the scan's prefix.
fn write_cursor(
    link: &Link,
    prefix: &KeyPrefix,
    snapshot: Snapshot,
    after: &StoreKey,
) -> Result<Cursor, StoreError> {
    let mut bytes = BytesMut::new();
    bytes.put_u64(snapshot.high);
    bytes.put_u64(snapshot.moment.as_unix_millis());
    bytes.put_slice(&seal(link, prefix, snapshot, after.as_str().as_bytes()));
    bytes.put_slice(after.as_str().as_bytes());
    Ok(Cursor::new(bytes.freeze())?)
}

/// `None`: it is not a cursor of this scan.
fn read_cursor(link: &Link, prefix: &KeyPrefix, cursor: &Cursor) -> Option<(Snapshot, StoreKey)> {
    let mut bytes = cursor.as_bytes().clone();
    let high = bytes.try_get_u64().ok()?;
    let moment = StoreTime::from_unix_millis(bytes.try_get_u64().ok()?);
    let snapshot = Snapshot { high, moment };
    if bytes.len() < DIGEST_BYTES {
        return None;
    }
    let found = bytes.split_to(DIGEST_BYTES);
    let after = StoreKey::from_utf8(&bytes).ok()?;
    (found == seal(link, prefix, snapshot, &bytes) && prefix.matches(&after))
        .then_some((snapshot, after))
}

fn seal(link: &Link, prefix: &KeyPrefix, snapshot: Snapshot, after: &[u8]) -> Bytes {
    let prefix = prefix.as_str();
    let head = format!("{}\n{}\n", prefix.len(), snapshot.high);
    let moment = snapshot.moment.as_unix_millis().to_be_bytes();
    let whole = [
        &link.domain.name[..],
        head.as_bytes(),
        prefix.as_bytes(),
        &moment,
        after,
    ];
    let mut seal = Bytes::copy_from_slice(digest(&SHA256, &whole.concat()).as_ref());
    seal.truncate(DIGEST_BYTES);
    seal
}

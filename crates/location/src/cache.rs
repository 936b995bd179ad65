//! Where objects are, remembered for a short while: a hint, never an authority (ST-81, RL-165 to RL-167). Pure.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use foldhash::fast::RandomState;
use spotlane_store::{Recovery, StoreVersion};
use spotlane_types::authority_key::AuthorityKey;
use spotlane_types::generation::{
    AuthorityOwnerGeneration, NodeGeneration, ObjectGeneration, OwnerLeaseGeneration,
};
use spotlane_types::id::{MeshName, NodeRid, OwnerId};
use spotlane_types::time::Monotonic;

/// How much longer than a cached route a moved object's messages must be followed (RL-166).
const FOLLOW_SLACK: Duration = Duration::from_secs(5);

/// One owner's hold on one incarnation of an object, compared as a whole (RL-7).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_structs, reason = "closed by RL-7")]
pub struct Tenure {
    /// The object.
    pub object: AuthorityKey,
    /// Its incarnation.
    pub object_generation: ObjectGeneration,
    /// The owner's node.
    pub node_rid: NodeRid,
    /// The run of that node.
    pub node_generation: NodeGeneration,
    /// The owner change.
    pub authority_owner_generation: AuthorityOwnerGeneration,
    /// The run of the owner's host.
    pub owner_lease_generation: OwnerLeaseGeneration,
}

/// Where to send what is for an object.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "closed by RL-165")]
pub struct Route {
    /// Whose it is.
    pub tenure: Tenure,
    /// The owner's host.
    pub owner_id: OwnerId,
    /// The mesh of the owner's node.
    pub mesh_name: MeshName,
    /// The version of the row that said so.
    pub store_version: StoreVersion,
}

/// The settings of a [`RouteCache`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RouteCacheSettings {
    max_age: Duration,
}

/// Routes would be believed for longer than messages are followed. The host does not start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("route cache max age {max_age:?} + 5s is above message follow duration {follow:?}")]
pub struct RouteCacheSettingError {
    max_age: Duration,
    follow: Duration,
}

impl RouteCacheSettingError {
    /// Always [`Recovery::FixCall`].
    pub fn recovery(&self) -> Recovery {
        Recovery::FixCall
    }
}

impl Default for RouteCacheSettings {
    /// 15 s (RL-296), which goes with the default follow duration of 30 s.
    fn default() -> Self {
        Self {
            max_age: Duration::from_secs(15),
        }
    }
}

impl RouteCacheSettings {
    /// Checks the age against the follow duration; zero switches either off (ST-81, RL-166).
    ///
    /// # Errors
    /// [`RouteCacheSettingError`], by recovery `FixCall`.
    pub fn new(max_age: Duration, follow: Duration) -> Result<Self, RouteCacheSettingError> {
        let both_on = !max_age.is_zero() && !follow.is_zero();
        if both_on && max_age.saturating_add(FOLLOW_SLACK) > follow {
            return Err(RouteCacheSettingError { max_age, follow });
        }
        Ok(Self { max_age })
    }
}

#[derive(Debug)]
struct Entry {
    route: Route,
    usable_until: Monotonic,
    /// Tells this entry from earlier ones of the same object in the queue.
    stamp: u64,
}

/// The routes of ready objects. Absent objects, objects in creation and errors are never in it (ST-81).
#[derive(Debug)]
pub struct RouteCache {
    settings: RouteCacheSettings,
    capacity: usize,
    entries: HashMap<AuthorityKey, Entry, RandomState>,
    /// Oldest first; may name entries that are gone or newer.
    order: VecDeque<(AuthorityKey, u64)>,
    stamp: u64,
}

impl RouteCache {
    /// An empty cache of at most `capacity` routes; the oldest makes room.
    pub fn new(settings: RouteCacheSettings, capacity: usize) -> Self {
        Self {
            settings,
            capacity,
            entries: HashMap::default(),
            order: VecDeque::new(),
            stamp: 0,
        }
    }

    /// Changes the age of entries that come from now on (RL-165).
    pub fn set_settings(&mut self, settings: RouteCacheSettings) {
        self.settings = settings;
    }

    /// Remembers a route until it is too old or the owner's admission deadline has come, whichever is first.
    pub fn insert(&mut self, route: Route, now: Monotonic, owner_deadline: Monotonic) {
        let usable_until = now.after(self.settings.max_age).min(owner_deadline);
        if usable_until <= now || self.capacity == 0 {
            return;
        }
        let object = route.tenure.object.clone();
        self.stamp = self.stamp.saturating_add(1);
        let stamp = self.stamp;
        self.entries.insert(
            object.clone(),
            Entry {
                route,
                usable_until,
                stamp,
            },
        );
        self.order.push_back((object, stamp));
        while self.entries.len() > self.capacity {
            let Some((oldest, stamp)) = self.order.pop_front() else {
                break;
            };
            self.remove_stamped(&oldest, stamp);
        }
        if self.order.len() > self.capacity.saturating_mul(2).max(16) {
            let entries = &self.entries;
            self.order
                .retain(|(object, stamp)| entries.get(object).is_some_and(|e| e.stamp == *stamp));
        }
    }

    fn remove_stamped(&mut self, object: &AuthorityKey, stamp: u64) {
        if self
            .entries
            .get(object)
            .is_some_and(|entry| entry.stamp == stamp)
        {
            self.entries.remove(object);
        }
    }

    /// As [`Self::get`] with one look: a route that is too old stays where it is, until it is looked for again or another one
    /// takes its place.
    #[inline]
    pub fn usable(&self, object: &AuthorityKey, now: Monotonic) -> Option<&Route> {
        let entry = self.entries.get(object)?;
        (entry.usable_until > now).then_some(&entry.route)
    }

    /// The route of an object while it may be used.
    pub fn get(&mut self, object: &AuthorityKey, now: Monotonic) -> Option<&Route> {
        let usable = self.entries.get(object)?.usable_until > now;
        if !usable {
            self.entries.remove(object);
        }
        self.entries.get(object).map(|entry| &entry.route)
    }

    /// Removes a route if it is of exactly this tenure; a newer one stays (ST-81, RL-7).
    pub fn remove_exact(&mut self, tenure: &Tenure) -> bool {
        let same = self
            .entries
            .get(&tenure.object)
            .is_some_and(|entry| entry.route.tenure == *tenure);
        if same {
            self.entries.remove(&tenure.object);
        }
        same
    }

    /// Removes the route of an object whose row was seen with another version (RL-167).
    pub fn version_seen(&mut self, object: &AuthorityKey, version: &StoreVersion) {
        let other = self
            .entries
            .get(object)
            .is_some_and(|entry| entry.route.store_version != *version);
        if other {
            self.entries.remove(object);
        }
    }

    /// Removes all routes to a host whose lease is invalid (RL-167).
    pub fn owner_lost(&mut self, owner: &OwnerId, generation: OwnerLeaseGeneration) {
        self.entries.retain(|_, entry| {
            let route = &entry.route;
            route.owner_id != *owner || route.tenure.owner_lease_generation != generation
        });
    }

    /// Removes everything, after the store has recovered (RL-167).
    pub fn clear(&mut self) {
        self.entries.clear();
        self.order.clear();
    }

    /// How many routes it holds.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Monotonic {
        Monotonic::from_origin(Duration::from_secs(seconds))
    }

    fn route(id: &str, owner_generation: u64) -> Route {
        Route {
            tenure: Tenure {
                object: AuthorityKey::Actor(id.parse().unwrap()),
                object_generation: ObjectGeneration::new(1).unwrap(),
                node_rid: NodeRid::new(b"n").unwrap(),
                node_generation: NodeGeneration::new(1).unwrap(),
                authority_owner_generation: AuthorityOwnerGeneration::new(owner_generation)
                    .unwrap(),
                owner_lease_generation: OwnerLeaseGeneration::new(1).unwrap(),
            },
            owner_id: OwnerId::new("owner").unwrap(),
            mesh_name: MeshName::new("main").unwrap(),
            store_version: StoreVersion::new(&owner_generation.to_string()).unwrap(),
        }
    }

    fn cache() -> RouteCache {
        RouteCache::new(RouteCacheSettings::default(), 4)
    }

    /// ST-81, RL-165
    #[test]
    fn a_route_ends_at_its_age_or_at_the_owners_deadline() {
        let (mut cache, a, b) = (cache(), route("a", 1), route("b", 1));
        cache.insert(a.clone(), at(0), at(100));
        cache.insert(b.clone(), at(0), at(7));
        assert!(cache.get(&a.tenure.object, at(14)).is_some());
        assert!(cache.get(&a.tenure.object, at(15)).is_none());
        assert!(cache.get(&b.tenure.object, at(6)).is_some());
        assert!(cache.get(&b.tenure.object, at(7)).is_none());
        assert!(cache.is_empty());
    }

    /// ST-81
    #[test]
    fn nothing_is_kept_when_it_is_off_or_already_over() {
        let off = RouteCacheSettings::new(Duration::ZERO, Duration::from_secs(1)).unwrap();
        let mut none = RouteCache::new(off, 4);
        none.insert(route("a", 1), at(0), at(100));
        assert!(none.is_empty());
        let mut cache = cache();
        cache.insert(route("a", 1), at(9), at(9));
        assert!(cache.is_empty());
    }

    /// ST-81, RL-7: a stale-route notice about an earlier tenure does not remove the newer route.
    #[test]
    fn only_the_exact_tenure_is_removed() {
        let mut cache = cache();
        let (old, new) = (route("a", 1), route("a", 2));
        cache.insert(new.clone(), at(0), at(100));
        assert!(!cache.remove_exact(&old.tenure));
        assert!(cache.get(&new.tenure.object, at(1)).is_some());
        for other in [
            Tenure {
                node_rid: NodeRid::new(b"m").unwrap(),
                ..new.tenure.clone()
            },
            Tenure {
                node_generation: NodeGeneration::new(2).unwrap(),
                ..new.tenure.clone()
            },
            Tenure {
                object_generation: ObjectGeneration::new(2).unwrap(),
                ..new.tenure.clone()
            },
            Tenure {
                owner_lease_generation: OwnerLeaseGeneration::new(2).unwrap(),
                ..new.tenure.clone()
            },
        ] {
            assert!(!cache.remove_exact(&other));
        }
        assert!(cache.remove_exact(&new.tenure));
        assert!(cache.is_empty());
    }

    /// RL-167
    #[test]
    fn news_of_row_owner_or_store_remove_routes() {
        let mut cache = cache();
        let (a, b) = (route("a", 1), route("b", 2));
        cache.insert(a.clone(), at(0), at(100));
        cache.insert(b.clone(), at(0), at(100));
        cache.version_seen(&a.tenure.object, &a.store_version);
        assert_eq!(cache.len(), 2);
        cache.version_seen(&a.tenure.object, &b.store_version);
        assert_eq!(cache.len(), 1);
        cache.owner_lost(&b.owner_id, OwnerLeaseGeneration::new(2).unwrap());
        assert_eq!(cache.len(), 1);
        cache.owner_lost(&b.owner_id, OwnerLeaseGeneration::new(1).unwrap());
        assert!(cache.is_empty());
        cache.insert(a, at(0), at(100));
        cache.clear();
        assert!(cache.is_empty());
    }

    /// ST-81, RL-166
    #[test]
    fn the_age_fits_the_follow_duration_when_both_are_on() {
        let new = |age, follow| {
            RouteCacheSettings::new(Duration::from_secs(age), Duration::from_secs(follow))
        };
        assert!(new(15, 20).is_ok());
        assert!(new(16, 20).is_err());
        assert!(new(0, 1).is_ok());
        assert!(new(900, 0).is_ok());
    }

    #[test]
    fn the_oldest_makes_room_and_the_queue_stays_bounded() {
        let mut cache = cache();
        for round in 0..1_000_u64 {
            cache.insert(route(&format!("o{}", round % 6), 1), at(0), at(100));
            assert!(cache.len() <= 4);
            assert!(cache.order.len() <= 16);
        }
        let oldest = route("o2", 1).tenure.object;
        assert!(cache.get(&oldest, at(0)).is_some());
        cache.insert(route("new", 1), at(0), at(100));
        assert_eq!(cache.len(), 4);
    }
}

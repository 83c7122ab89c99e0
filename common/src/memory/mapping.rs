//! Mapped ranges: memfds that are sealed before they are handed over, and private memory.

use memmap2::{MmapOptions, MmapRaw};
use rustix::fs::{MemfdFlags, Mode, SealFlags, fchmod, fcntl_add_seals, ftruncate, memfd_create};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;

/// Bytes of a 2 MiB hugepage.
const HUGEPAGE_BYTES: usize = 2 << 20;
/// Bytes of a normal page.
pub(crate) const PAGE_BYTES: usize = 4096;

/// Whether pools use hugepages.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum HugepageMode {
    /// Used when the kernel has them to give.
    #[default]
    Auto,
    /// Refuse to start without them.
    Require,
    /// Never.
    Off,
}

/// The pages a mapping is made of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PageKind {
    /// 4 KiB.
    Normal,
    /// 2 MiB, from the kernel's pool.
    Huge,
}

/// What a memfd's receiver may do with it. Every memfd is sealed SHRINK, GROW and SEAL as well.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Seals {
    /// `F_SEAL_FUTURE_WRITE`: only mappings that exist already stay writable. Index and heap.
    ReadOnly,
    /// The receiver may map it writable. Staging rings and cells, on normal pages only: a receiver can punch
    /// a hole, and on hugetlb the owner would then die of SIGBUS.
    Shared,
}

/// Why memory could not be had.
#[derive(Debug, thiserror::Error)]
pub enum MappingError {
    /// A call of the kernel failed.
    #[error("{call} of {bytes} bytes ({what}): {source}")]
    Kernel {
        /// The call.
        call: &'static str,
        /// What the memory is for.
        what: String,
        /// Bytes asked for.
        bytes: usize,
        /// What the kernel said.
        source: io::Error,
    },
    /// `HugepageMode::Require`, and the pool has too few.
    #[error(
        "{needed} hugepages of 2 MiB are needed for {what}, {free} are free; \
         run `echo {suggest} > /proc/sys/vm/nr_hugepages` as root, or use `--hugepages auto`"
    )]
    Hugepages {
        /// What the memory is for.
        what: String,
        /// Hugepages needed.
        needed: usize,
        /// Hugepages free.
        free: usize,
        /// A number that would do.
        suggest: usize,
    },
    /// A length of zero or one that no mapping can have.
    #[error("{what}: a length of {bytes} bytes cannot be mapped")]
    Length {
        /// What the memory is for.
        what: String,
        /// Bytes asked for.
        bytes: usize,
    },
}

/// A mapped range. Owns the mapping and, when it is shared, the descriptor.
#[derive(Debug)]
pub struct Mapping {
    raw: MmapRaw,
    file: Option<File>,
    pages: PageKind,
    writable: bool,
    /// The region of a simulated world that watches stores.
    #[cfg(feature = "sim")]
    watch: std::sync::OnceLock<u32>,
}

impl Mapping {
    fn new(raw: MmapRaw, file: Option<File>, pages: PageKind, writable: bool) -> Self {
        Self {
            raw,
            file,
            pages,
            writable,
            #[cfg(feature = "sim")]
            watch: std::sync::OnceLock::new(),
        }
    }

    /// Stores are told to this region of a simulated world from now on.
    #[cfg(feature = "sim")]
    pub(crate) fn watch(&self, region: u32) {
        let _ = self.watch.set(region);
    }

    /// The region that is told of stores.
    #[cfg(feature = "sim")]
    #[inline]
    pub(crate) fn watched(&self) -> Option<u32> {
        self.watch.get().copied()
    }

    /// A memfd of `bytes` bytes (rounded up to whole pages), mapped writable, prefaulted, then sealed.
    ///
    /// # Errors
    /// When the kernel refuses, or hugepages are required and there are too few.
    pub fn memfd(what: &str, bytes: usize, huge: HugepageMode, seals: Seals) -> Result<Self, MappingError> {
        assert!(seals == Seals::ReadOnly || huge == HugepageMode::Off, "what clients write never uses hugepages");
        if crate::host::is_simulated() {
            return Self::anonymous(what, bytes);
        }
        if huge != HugepageMode::Off {
            match Self::memfd_of(what, bytes, PageKind::Huge, seals) {
                Ok(mapping) => return Ok(mapping),
                Err(_) if huge == HugepageMode::Auto => {}
                Err(MappingError::Kernel { .. }) => {
                    let needed = bytes.div_ceil(HUGEPAGE_BYTES);
                    let (total, free) = hugepage_pool();
                    let suggest = total + needed.saturating_sub(free);
                    return Err(MappingError::Hugepages { what: what.into(), needed, free, suggest });
                }
                Err(other) => return Err(other),
            }
        }
        Self::memfd_of(what, bytes, PageKind::Normal, seals)
    }

    fn memfd_of(what: &str, bytes: usize, pages: PageKind, seals: Seals) -> Result<Self, MappingError> {
        let page = if pages == PageKind::Huge { HUGEPAGE_BYTES } else { PAGE_BYTES };
        let length = Self::whole_pages(what, bytes, page)?;
        let fail = |call| {
            let what = what.to_owned();
            move |source: io::Error| MappingError::Kernel { call, what, bytes: length, source }
        };
        let mut flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        if pages == PageKind::Huge {
            flags |= MemfdFlags::HUGETLB;
        }
        let fd = memfd_create(format!("sidewire-{what}"), flags).map_err(|e| fail("memfd_create")(e.into()))?;
        ftruncate(&fd, length as u64).map_err(|e| fail("ftruncate")(e.into()))?;
        fchmod(&fd, Mode::from_raw_mode(0o400)).map_err(|e| fail("fchmod")(e.into()))?;
        let file = File::from(fd);
        let mut options = MmapOptions::new();
        let raw = options.len(length).populate().map_raw(&file).map_err(fail("mmap"))?;
        let mut seal = SealFlags::SHRINK | SealFlags::GROW;
        if seals == Seals::ReadOnly {
            seal |= SealFlags::FUTURE_WRITE;
        }
        fcntl_add_seals(&file, seal | SealFlags::SEAL).map_err(|e| fail("F_ADD_SEALS")(e.into()))?;
        let mapping = Self::new(raw, Some(file), pages, true);
        mapping.check_populated(what)?;
        Ok(mapping)
    }

    /// Private anonymous memory on normal pages, prefaulted.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn anonymous(what: &str, bytes: usize) -> Result<Self, MappingError> {
        let length = Self::whole_pages(what, bytes, PAGE_BYTES)?;
        let mut options = MmapOptions::new();
        options.len(length);
        // A simulated world is short, and touches little of what it maps.
        if !crate::host::is_simulated() {
            options.populate();
        }
        let fail = |source| MappingError::Kernel { call: "mmap", what: what.into(), bytes: length, source };
        let map = options.map_anon().map_err(fail)?;
        Ok(Self::new(MmapRaw::from(map), None, PageKind::Normal, true))
    }

    /// Maps the first `bytes` bytes of a descriptor that another process handed over.
    ///
    /// The other process must have sealed it against shrinking, else a later access could fault; that is checked.
    ///
    /// # Errors
    /// When the file is not sealed against shrinking, is shorter than `bytes`, or the kernel refuses.
    pub fn adopt(what: &str, fd: OwnedFd, bytes: usize, writable: bool) -> Result<Self, MappingError> {
        let file = File::from(fd);
        let fail = |call: &'static str, source: io::Error| MappingError::Kernel { call, what: what.into(), bytes, source };
        let seals = rustix::fs::fcntl_get_seals(&file).map_err(|e| fail("F_GET_SEALS", e.into()))?;
        if !seals.contains(SealFlags::SHRINK) {
            return Err(fail("F_GET_SEALS", io::Error::other("the peer's memory is not sealed against shrinking")));
        }
        let about = file.metadata().map_err(|e| fail("fstat", e))?;
        // The block size is the page size. Part of a hugepage could be mapped, but never unmapped again.
        if bytes == 0 || about.len() < bytes as u64 || !(bytes as u64).is_multiple_of(about.blksize().max(1)) {
            return Err(MappingError::Length { what: what.into(), bytes });
        }
        let mut options = MmapOptions::new();
        options.len(bytes);
        let raw = if writable { options.map_raw(&file) } else { options.map_raw_read_only(&file) };
        let raw = raw.map_err(|e| fail("mmap", e))?;
        let pages = if about.blksize() > PAGE_BYTES as u64 { PageKind::Huge } else { PageKind::Normal };
        Ok(Self::new(raw, Some(file), pages, writable))
    }

    fn whole_pages(what: &str, bytes: usize, page: usize) -> Result<usize, MappingError> {
        let length = bytes.checked_next_multiple_of(page).filter(|&l| l > 0 && isize::try_from(l).is_ok());
        length.ok_or_else(|| MappingError::Length { what: what.into(), bytes })
    }

    /// `MAP_POPULATE` does not report failure; `mincore` would lie for shared memory. Touching through
    /// `madvise(POPULATE_WRITE)` reports it as an error instead of a later SIGBUS.
    fn check_populated(&self, what: &str) -> Result<(), MappingError> {
        use rustix::mm::{Advice, madvise};
        // SAFETY: the range is exactly the live mapping owned by `self`, and POPULATE_WRITE changes no content:
        // it only faults pages in.
        let done = unsafe { madvise(self.raw.as_mut_ptr().cast(), self.raw.len(), Advice::LinuxPopulateWrite) };
        match done {
            // Kernels before 5.14 do not know it; MAP_POPULATE has done what can be done there.
            Ok(()) | Err(rustix::io::Errno::INVAL) => Ok(()),
            Err(e) => {
                Err(MappingError::Kernel { call: "MADV_POPULATE_WRITE", what: what.into(), bytes: self.len(), source: e.into() })
            }
        }
    }

    /// Bytes mapped.
    #[must_use]
    #[inline]
    pub fn len(&self) -> usize {
        self.raw.len()
    }

    /// Never: a mapping has at least one page.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.raw.len() == 0
    }

    /// The pages it is made of.
    #[must_use]
    pub fn pages(&self) -> PageKind {
        self.pages
    }

    /// Whether this process may store to it.
    #[must_use]
    #[inline]
    pub fn is_writable(&self) -> bool {
        self.writable
    }

    /// The address of its first byte in this process, as a number: what a NIC is given.
    #[must_use]
    #[inline]
    pub fn address(&self) -> u64 {
        self.raw.as_mut_ptr() as u64
    }

    #[inline]
    pub(crate) fn pointer(&self) -> *mut u8 {
        self.raw.as_mut_ptr()
    }

    /// Puts private zero pages in the place of memory that a process lent which is gone: the memory itself is
    /// free again, hugepages above all, while the address range stays valid for whoever still looks.
    /// What is read from then on means nothing.
    pub(crate) fn abandon(&self) -> io::Result<()> {
        use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};
        let rights = if self.writable { ProtFlags::READ | ProtFlags::WRITE } else { ProtFlags::READ };
        let flags = MapFlags::PRIVATE | MapFlags::FIXED | MapFlags::NORESERVE;
        // SAFETY: the range is exactly the live mapping that `self` owns, and nothing else is in it. The kernel
        // swaps the pages in one step with the same rights, so pointers into it stay valid, and what is lent
        // by others is never behind a reference to bytes: `View` copies, whatever the bytes become.
        let mapped = unsafe { mmap_anonymous(self.raw.as_mut_ptr().cast(), self.raw.len(), rights, flags) };
        mapped.map(drop).map_err(io::Error::from)
    }

    /// Takes the descriptor out: the mapping lives on without it.
    pub(crate) fn take_file(&mut self) -> Option<OwnedFd> {
        self.file.take().map(OwnedFd::from)
    }

    /// The descriptor behind it, when it is a memfd and was not taken out.
    #[must_use]
    pub fn file(&self) -> Option<BorrowedFd<'_>> {
        self.file.as_ref().map(AsFd::as_fd)
    }
}

/// Hugepages of 2 MiB: (total, free).
fn hugepage_pool() -> (usize, usize) {
    let read = |name: &str| {
        std::fs::read_to_string(format!("/sys/kernel/mm/hugepages/hugepages-2048kB/{name}"))
            .ok()
            .and_then(|text| text.trim().parse().ok())
            .unwrap_or(0)
    };
    (read("nr_hugepages"), read("free_hugepages"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sealed_memfd_cannot_be_mapped_writable_by_its_receiver() {
        let mapping = Mapping::memfd("seal-test", 8192, HugepageMode::Off, Seals::ReadOnly).unwrap();
        let fd = mapping.file().unwrap().try_clone_to_owned().unwrap();
        assert!(Mapping::adopt("receiver", fd, 8192, true).is_err());
        let fd = mapping.file().unwrap().try_clone_to_owned().unwrap();
        assert!(Mapping::adopt("receiver", fd, 8192, false).is_ok());
    }

    #[test]
    fn a_read_only_mapping_of_it_cannot_be_made_writable() {
        use rustix::mm::{MprotectFlags, mprotect};
        let mapping = Mapping::memfd("mprotect-test", 4096, HugepageMode::Off, Seals::ReadOnly).unwrap();
        let fd = mapping.file().unwrap().try_clone_to_owned().unwrap();
        let theirs = Mapping::adopt("receiver", fd, 4096, false).unwrap();
        let flags = MprotectFlags::READ | MprotectFlags::WRITE;
        // SAFETY: the range is exactly the live mapping `theirs`; more rights, were they given, break no reference.
        let changed = unsafe { mprotect(theirs.pointer().cast(), theirs.len(), flags) };
        assert_eq!(changed, Err(rustix::io::Errno::ACCESS));
    }

    #[test]
    fn what_is_abandoned_reads_as_zeros_and_leaves_the_lender_alone() {
        let mapping = Mapping::memfd("abandon-test", 8192, HugepageMode::Off, Seals::Shared).unwrap();
        let fd = mapping.file().unwrap().try_clone_to_owned().unwrap();
        let theirs = crate::memory::View::whole(std::sync::Arc::new(Mapping::adopt("receiver", fd, 8192, true).unwrap()));
        let ours = crate::memory::View::whole(std::sync::Arc::new(mapping));
        ours.store(4096, 7).unwrap();
        assert_eq!(theirs.load(4096), Ok(7));
        theirs.mapping().abandon().unwrap();
        assert_eq!(theirs.load(4096), Ok(0));
        theirs.store(4096, 9).unwrap();
        assert_eq!(ours.load(4096), Ok(7));
    }

    #[test]
    fn memory_that_may_shrink_is_not_adopted() {
        let fd = memfd_create("unsealed", MemfdFlags::CLOEXEC).unwrap();
        ftruncate(&fd, 4096).unwrap();
        assert!(Mapping::adopt("receiver", fd, 4096, false).is_err());
    }

    #[test]
    fn more_than_the_file_holds_is_not_adopted() {
        let mapping = Mapping::memfd("short", 4096, HugepageMode::Off, Seals::Shared).unwrap();
        let fd = mapping.file().unwrap().try_clone_to_owned().unwrap();
        assert!(matches!(Mapping::adopt("receiver", fd, 8192, true), Err(MappingError::Length { .. })));
    }
}

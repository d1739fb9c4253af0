"""Which filesystems may hold a database: its locks and its shared memory must hold for every process of one host. Pure."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct


class Filesystem(Struct, frozen=True):
    """A mounted filesystem: its kind as the kernel names it (`ext4`, `nfs4`, `fuse.sshfs`) and where it is mounted."""

    kind: str
    mounted_at: str


class Fitness(StrEnum):
    """Whether a database can live there."""

    FIT = "fit"
    UNKNOWN = "unknown"
    """Some program's own filesystem (FUSE, virtiofs): nobody can say what its locks are worth."""
    NETWORK = "network"
    """Another host may have the file open, and locks or shared memory don't reach it: WAL corrupts silently."""


_KINDS = (
    "nfs nfs4 cifs smb smb2 smb3 smbfs 9p afs ncpfs coda ceph lustre glusterfs gpfs beegfs orangefs pvfs2 davfs vboxsf"
    " prl_fs vmhgfs acfs ocfs2 gfs gfs2 afpfs"
)
_PROGRAMS = (
    "sshfs s3fs rclone glusterfs ceph davfs2 smbnetfs curlftpfs gcsfuse goofys mfs moosefs seaweedfs juicefs"
    " vmhgfs-fuse gvfsd-fuse blobfuse blobfuse2 cephfs wdfs"
)
NETWORK = frozenset(_KINDS.split())
NETWORK_PROGRAMS = frozenset(_PROGRAMS.split())
"""Programs behind `fuse.NAME`."""
LOCAL_PROGRAMS = frozenset(
    {"fuse-overlayfs", "ntfs-3g", "ntfs", "exfat", "gocryptfs", "encfs", "mergerfs", "bindfs"}
)


def fitness(kind: str) -> Fitness:
    """What `kind` means for a database."""
    name, _, program = kind.lower().partition(".")
    if name in NETWORK or program in NETWORK_PROGRAMS:
        return Fitness.NETWORK
    if name == "virtiofs":
        return Fitness.UNKNOWN
    if name in ("fuse", "fuseblk"):
        return Fitness.FIT if name == "fuseblk" or program in LOCAL_PROGRAMS else Fitness.UNKNOWN
    return Fitness.FIT

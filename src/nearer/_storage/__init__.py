"""Checksummed folders: tensors as safetensors, everything else as JSON, never a pickle.

```
name/
  manifest.json          format, version, library, sha256 and size of every file, free metadata
  <part>.safetensors     named tensors, dtype and shape kept
  <document>.json        larger JSON values that would crowd the manifest
  <name>.<kind>          pages and pictures for people; programs never look into them
.name.saving/            beside it, only while a process saves: the lock and the folder that is being written
```

The promise: whoever opens `name` gets one saved version, whole, however many others write or die meanwhile.

- A save writes `.name.saving/new`, flushes every file and the folder, and then exchanges the two names in one step
  of the file system; the old version goes afterwards. A full disk leaves the old one as it was.
- A reader opens the folder once, opens all files in it, and parses the very bytes that it has hashed. Files are
  never changed after they have got their name, so a reader of the old version finishes with the old version.
- One process saves at a time; others wait `NEARER_LOCK_SECONDS` and are then told who it is.
- A killed save leaves `.name.saving`; the next open puts the folder right and sweeps, unless someone holds the
  lock.

Where the system cannot exchange two names, two renames take their place: a reader that comes between them waits,
and after a kill there the next open finishes them. The checksums find damage; they are no signature against a
forger, which is why nothing in a folder is ever executed. docs/guarantees.md names the test of each promise.
"""

from nearer._storage._folder import Folder as Folder
from nearer._storage._folder import read_folder as read_folder
from nearer._storage._folder import remove_folder as remove_folder
from nearer._storage._folder import settle as settle
from nearer._storage._folder import write_file as write_file
from nearer._storage._folder import write_folder as write_folder
from nearer._storage._snapshot import MANIFEST as MANIFEST

//go:build unix

package attack

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// full is the folder of an arena that may be a small disk.
const full = "full"

// beginDisk lets writers run out of room: on a disk of a few pages, for whom may mount one,
// and by a limit on the size of files.
func beginDisk(a *arena) func(*round) {
	list := models(a)[:6]
	dir := filepath.Join(a.dir, full)
	check(os.Mkdir(dir, 0o777))
	small := exec.Command("mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", dir).Run() == nil
	if !small {
		a.count("without a small disk", 1)
	}
	in := filepath.Join(a.dir, "in")
	check(os.Mkdir(in, 0o777))
	for _, m := range list {
		m.put(in)
	}
	return func(r *round) {
		defer clean(dir)
		all, line := pick(r.Rand, list), pick(r.Rand, verbs)
		for !strings.Contains(line, "out.") {
			line = pick(r.Rand, verbs)
		}
		args := words(line, filepath.Join(in, all.path), all.tensors[r.IntN(len(all.tensors))].name)
		name := fmt.Sprintf("%s: %q", all.name, args)
		before := outcome{}
		if r.chance(2) {
			before = r.run(dir, args, nil)
		}
		limit := ""
		if small && r.chance(2) {
			check(os.WriteFile(filepath.Join(dir, "ballast"), make([]byte, 4<<20-freed(dir)-r.IntN(900_000)), 0o666))
			limit = "a full disk"
		} else {
			blocks := 8 * (1 + r.IntN(200))
			args = append([]string{"-c", fmt.Sprintf(`ulimit -f %d; exec "$@"`, blocks), "sh", r.command}, args...)
			limit = fmt.Sprintf("ulimit -f %d", blocks)
		}
		got := r.limited(dir, limit, args)
		switch {
		case got.died():
			r.errorf("%s, %s: status %d\n%.3000s", name, limit, got.status, got.stderr)
		case got.status == 0:
			r.count("fits", 1)
			if before.files != "" && got.files != before.files {
				r.errorf("%s, %s: status 0 and\n%snot\n%s", name, limit, got.files, before.files)
			}
		default:
			r.count("fails", 1)
			if got.files != before.files {
				r.errorf("%s, %s: status 1 and\n%swhere there was\n%s", name, limit, got.files, before.files)
			}
			if !strings.Contains(got.stderr, "tensormap: ") {
				r.errorf("%s, %s: no reason: %q", name, limit, got.stderr)
			}
		}
		if left := leftovers(dir); left != nil {
			r.errorf("%s, %s: status %d and %v left behind", name, limit, got.status, left)
		}
	}
}

// freed is how many bytes the files of a folder take, in pages.
func freed(dir string) (n int) {
	for _, e := range must(os.ReadDir(dir)) {
		n += (int(must(e.Info()).Size()) + 4095) &^ 4095
	}
	return n
}

// limited runs the command, by a shell where that sets the limit.
func (r *round) limited(dir, limit string, args []string) outcome {
	if !strings.HasPrefix(limit, "ulimit") {
		return r.run(dir, args, nil)
	}
	shell := &arena{command: "sh"}
	return shell.run(dir, args, nil)
}

// unmount takes the small disk of an attack that may have died.
func unmount(dir string) { exec.Command("umount", filepath.Join(dir, full)).Run() }

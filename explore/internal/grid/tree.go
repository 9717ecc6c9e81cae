package grid

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// branch is a group of the list: the tensors of a stack, of a module in it, or of one role.
type branch struct {
	id, name string
	roles    []int
	branches []branch // none of a role
}

// headings is the order of groups of the grid.
var headings = []string{"Attention", "Feed-forward", "Recurrence", "Others", "Norms and biases"}

// newTree groups roles by stack, and within by module.
func newTree(x *Index) (stacks []branch) {
	for s, stack := range x.stacks {
		b := branch{id: fmt.Sprintf("s%d", s)}
		low, high := math.MaxInt, 0
		modules := make(map[string]int)
		for _, heading := range headings {
			for i, r := range x.roles {
				if r.stack != s || r.heading() != heading {
					continue
				}
				low, high = min(low, r.members[0].layer), max(high, r.members[len(r.members)-1].layer)
				b.roles = append(b.roles, i)
				folder, _ := r.folder()
				m, ok := modules[folder]
				if !ok || folder == "" {
					m = len(b.branches)
					modules[folder] = m
					b.branches = append(b.branches, branch{id: fmt.Sprintf("m%d", i)})
				}
				b.branches[m].roles = append(b.branches[m].roles, i)
			}
		}
		if len(b.roles) == 0 {
			continue
		}
		b.name = fmt.Sprintf("%s{%d..%d}", stack, low, high)
		for m := range b.branches {
			b.branches[m].fill(x)
		}
		stacks = append(stacks, b)
	}
	return stacks
}

// fill names the branch of a module, and makes branches of its roles. A single role takes its place.
func (b *branch) fill(x *Index) {
	if len(b.roles) == 1 {
		i := b.roles[0]
		*b = branch{id: fmt.Sprintf("r%d", i), name: x.roles[i].suffix, roles: b.roles}
		return
	}
	var leaves []string
	folder := ""
	for _, i := range b.roles {
		var leaf string
		folder, leaf = x.roles[i].folder()
		leaves = append(leaves, leaf)
		b.branches = append(b.branches, branch{id: fmt.Sprintf("r%d", i), name: leaf, roles: []int{i}})
	}
	b.name = folder + joined(leaves)
	if strings.HasSuffix(folder, "}.") {
		b.name = strings.TrimSuffix(folder, ".")
	}
}

// folder returns what a role's suffix has before its module, as "self_attn.", and the rest: "q_proj.weight". Without a dot
// it is what stands before an underscore: "attn_".
func (r *role) folder() (folder, leaf string) {
	path, _ := module(r.suffix)
	i := strings.LastIndexAny(path, "./")
	if i < 0 {
		i = strings.IndexByte(path, '_')
	}
	if strings.HasPrefix(path[i+1:], "{") {
		return "", r.suffix
	}
	return r.suffix[:i+1], r.suffix[i+1:]
}

// maxJoined bounds the bytes of names that joined makes.
const maxJoined = 60

// joined returns one pattern for leaves: "{q,k,v,o}_proj.weight". It is * if they are not all combinations of modules and
// parameters, or if there are too many.
func joined(leaves []string) string {
	var modules, parameters []string
	add := func(list *[]string, s string) {
		if !slices.Contains(*list, s) && len(*list) < maxJoined {
			*list = append(*list, s)
		}
	}
	for _, leaf := range leaves {
		if len(leaf) > maxJoined { // and so is the pattern
			return "*"
		}
		path, _ := module(leaf)
		add(&modules, path)
		add(&parameters, leaf[len(path):])
	}
	for i, p := range parameters {
		if len(parameters) > 1 && len(p) > 0 {
			parameters[i] = p[1:]
		}
	}
	tail := parameters[0]
	if len(parameters) > 1 {
		tail = "." + braces(parameters)
	}
	name := braces(modules) + tail
	if len(modules)*len(parameters) != len(leaves) || len(name) > maxJoined {
		return "*"
	}
	return name
}

// braces returns a pattern for some names: what all begin and end with, cut at underscores, stands outside its braces.
func braces(names []string) string {
	if len(names) == 1 {
		return names[0]
	}
	before, after := names[0], names[0]
	for _, name := range names {
		for !strings.HasPrefix(name, before) {
			before = before[:strings.LastIndexByte(strings.TrimSuffix(before, "_"), '_')+1]
		}
		for !strings.HasSuffix(name, after) {
			_, rest, _ := strings.Cut(after[min(1, len(after)):], "_")
			if after = ""; rest != "" {
				after = "_" + rest
			}
		}
	}
	if !strings.HasSuffix(before, "_") {
		before = before[:strings.LastIndexByte(before, '_')+1]
	}
	middles := make([]string, len(names))
	for i, name := range names {
		if len(before)+len(after) > len(name) {
			after = ""
		}
		middles[i] = name[len(before):]
	}
	for i := range middles {
		middles[i] = strings.TrimSuffix(middles[i], after)
	}
	return before + "{" + strings.Join(middles, ",") + "}" + after
}

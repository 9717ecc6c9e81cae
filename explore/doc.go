// Package explore shows a model as a page: what it is, which of its tensors are odd, what each of them holds, and what
// differs from another model. [Handler] is an http.Handler that a server mounts next to /debug/pprof.
//
// The page asks the handler for data, as internal/answer declares it. Figures are as in package survey, by the names that
// the command's --json gives them. The page only draws: all else is done here.
package explore

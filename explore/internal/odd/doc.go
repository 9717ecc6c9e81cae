// Package odd says in words what is odd about a model's figures, and about the comparison of two models. Its rules are few
// and fixed, so that a sentence says what was found, and beside it what that is compared with. It calls nothing good or bad.
//
// A severity is 3 (damaged, NaN, infinite), 2 (strong), 1 (mild) or 0 (checked, and fine). Findings of one rule, role and
// severity are one sentence. The largest values of a sample are bounds. It never shows that there is none of something, so
// no finding says that.
package odd

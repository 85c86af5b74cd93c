// Package iemas plays the experiments of "IEMAS: An Incentive-Efficiency Routing Framework for Open Agentic
// Web Ecosystems" in virtual time: its three sets of dialogues before engines of three models, the routers of
// its Table 1 and this market; its predictors beside those of a hub, by turn (Fig. 3); and welfare over 160
// turns (Fig. 4).
//
// Nobody published how good several models' answers are on these sets. Every turn stands for a question of
// which it was recorded, the same whoever routes: see [Recorded].
package iemas

"""Ordinary English, written for the measurement of harm and used for nothing else: no model and no adapter saw it.

Data only: `EVERYDAY` has a paragraph per text. Some of them hold numbers in figures, as prose does: years, ages,
distances, prices.
"""

_PARAGRAPHS = """
The ferry was late again, and the people on the pier had stopped looking at the clock above the ticket office. A woman
in a green coat shared her sandwiches with two boys who had missed their school bus. Nobody spoke much. When the boat
finally came round the headland, its lights were already on, although it was only four in the afternoon, and the gulls
rose from the wall as if someone had shaken a tablecloth over the water.

My uncle repaired accordions in a shed behind his house. He kept the reeds in matchboxes and the matchboxes in a
drawer that nobody else was allowed to open. On Sundays he played one tune for every instrument he had finished that
week, so that the neighbours always knew how business was going. In a good month we had dancing in the yard; in a bad
one he played slowly and closed the shed before supper.

Bread needs time more than it needs strength. If you knead it for too long, the dough becomes warm and tired, and the
loaf will be flat. Leave it under a damp cloth near the stove, go for a walk, and come back when it has doubled. The
second rise is shorter. What matters most is that the oven is truly hot before the bread goes in, because the first
minutes decide how high it will stand.

The lighthouse on the northern rock was finished in 1854 and has been dark since 1978. Its last keeper stayed in the
village and sold postcards of the tower from a table in front of his door. He said that he still woke up at night to
wind the clockwork that turned the lamp. Children asked him whether he had seen ships go down. He never answered, but
he gave them a postcard and told them to write to somebody.

We took the night train because it was cheaper. The heating in our carriage could not be turned off, so everybody
slept with the windows open and a coat over the face. At some border a man with a torch looked at our papers and
wished us a good journey in three languages. In the morning there were mountains on both sides, and the dining car had
run out of everything but tea and hard biscuits.

The library moved out of the old school in 1997, when it had 12400 books and one librarian. Today it lends tools, cake
tins and fishing rods as well, and on winter evenings the reading room is the warmest place in the street. The
librarian says that the fishing rods always come back on time, which cannot be said of the novels. A box by the door
collects what readers used as bookmarks: ribbons, tickets, once a love letter.

Foxes have learned to wait at the crossing behind the market. They sit on the pavement, look to both sides and trot
over when the cars have stopped. People film them and call them clever, but the fruit seller has another explanation.
In his opinion they only watch the feet of the crowd and follow when the feet begin to move, as a dog would. Still, he
leaves the soft pears under the stall for them in the evening.

When the river froze in the winter of 1963, the baker's son walked across it with a sack of flour, because the bridge
was closed and the oven on the other side was cold. It took him 40 minutes. Half the town stood on the bank and held
its breath. Afterwards his mother did not speak to him for a week, while his father hung the empty sack above the
counter, where it stayed until the shop was sold.

A good umbrella is a matter of ribs. The cheap ones have eight thin wires that turn inside out in the first wind; the
better ones bend and come back. In our street there used to be a man who mended them while you waited. He worked in a
doorway, under an umbrella of his own that was so large that customers stood under it too, and he never charged for
the advice to buy a hat instead.

The choir rehearses on Thursdays in the gymnasium, among ropes and wooden horses. There are too many basses and too
few tenors, as everywhere. The conductor is a dentist and has strong views on how far a mouth should open. Before the
concert she makes everybody lie on the floor and breathe. It looks like an accident, but when they get up and sing the
first chord, even the caretaker puts down his keys.

After the storm the whole village went to look for its roofs. The sheets of tin had flown as far as the quarry, and it
was not easy to say whose they were. In the end everyone took as many as were missing at home. Some houses now have a
roof in three colours. The priest, whose church had lost only its weathercock, found it a week later in a cherry tree
and left it there until the fruit had been picked.

Her first flat was on the fifth floor, 96 steps above the street, with a window to the yard and another one to the
railway. The rent was 210 a month and included a piano that could not be moved. She did not play, but she learned,
since the neighbours below complained less about scales than about silence, which made them nervous. By spring she
knew three waltzes, and by summer the man from the second floor had stopped pretending to be there by chance.

Bees do not like blue overalls, or so the old keeper claims. He wears white and moves as if under water. Each hive has
a name painted over its entrance, mostly those of aunts. In May he carries the honey to the kitchen, and for two days
the whole house must keep its doors shut. The first jar is for the post office, because a swarm once spent a weekend
in the letter box, and nobody there was angry.

The exhibition showed tools for which nobody knew a use any more. There was a spoon with holes too large for sugar and
too small for berries, a brush without bristles, and a pair of tongs that could not be closed. Visitors were asked to
write down their guesses. The best answer came from a girl of nine, who said that the things had been made by somebody
who wanted to be asked.

Snow fell on the vineyards, which happens once in twenty years. The growers stood at their gates and argued about
whether it would hurt the buds. One of them had lit small fires between the rows, and the smoke hung over the hill
like a second sky. By noon everything dripped. Only the north side of the chapel stayed white, and the children slid
down there on trays that they had borrowed from the inn.

From 1911 to 1926 the town had a tram, and some of the rails still lie under the asphalt of the main street. In hot
summers the road sinks a little on both sides of them, so that cyclists can feel the old line in their wrists. The
depot became a cinema, then a carpet shop, then a cinema again. Above the screen you can still read that spitting is
forbidden and that dogs travel at half price.

A letter arrived for a person who had moved away long ago. We forwarded it, and it came back; we tried another
address, and it came back with a stamp that none of us could read. In the end my sister opened it over the kettle. It
was an invitation to a wedding. She answered it, in the name of the house, and so we came to dance with strangers who
thanked us warmly for having been found.

The market opens at six, but the first customers are there earlier and help to unload. They know which crates hold the
small cucumbers and whose eggs are fresh. Prices are not written down before eight. Until then one bargains in a low
voice, almost without moving the lips, and a deal is closed by looking away. Tourists who come at ten find everything
labelled and believe that this is how it works.

The marathon of 2004 was won by a postman who had run every day of his working life, about 18 kilometres with a bag on
his shoulder. Reporters asked him for the secret of his training. He said that dogs had played a part. For the finish
he wore his uniform cap, which the organisers had tried to forbid, and as he crossed the line he put a letter into the
hand of the mayor, who had been waiting for it since Tuesday.

Every kitchen has one pan that is better than the others, and nobody can say why. Ours is black, dented and slightly
too heavy. Guests who want to be helpful scrub it and have to be forgiven. It came with the house, and the people
before us had found it there as well. When the stove was replaced, the workmen had to promise to carry the pan out
first and to bring it back last.

The owl lived in the clock tower and had grown used to the bell, but not to the silence after it was taken down for
repair. On the first evening it flew round the tower eleven times, at every full hour once more than before. People
came out with chairs to watch. When the bell was hung again in the autumn, the watchmaker left the shutter open by the
width of a hand, although the rules for the building say otherwise.

At the age of 71 my neighbour bought a sailing boat, and at 74 he learned to swim. He explained that this was the
right order, because a man who can swim takes less care of his boat. The harbour master shook his head and gave him
the berth next to the rescue station. So far nothing has happened, apart from an evening on which he sailed home
against the current and was overtaken by a family of ducks.

Rain changes the sound of a city before you can feel it. The tyres begin to hiss, the voices in the cafe move inside,
and somewhere a metal roof starts counting. Then the smell comes up from the pavement. My grandfather could tell from
it whether the shower would last. He would raise his nose, order another coffee or pay the bill, and he was right
often enough that the waiters watched him, too.

The school play needed a horse, and the only horse to be had was old and fond of music. Whenever the piano began, it
walked towards it and laid its head on the lid. The teacher rewrote the story. In the new version the knight arrived
on foot, and the horse was a magician's helper who could hear treasure through wood. Of all the actors it was the only
one who never looked at the audience.
"""

EVERYDAY = tuple(" ".join(paragraph.split()) for paragraph in _PARAGRAPHS.split("\n\n"))

"""Words, names and fixed sentences that fill and complete the texts of rows.

`COMMON` and `OPERATING` make up the sentences without sense of `draw_context`: common English words, and words that
name an operation when they are between two numbers, so that no word alone decides whether a calculation is asked for.
Only data; texts with fields are in the other modules.
Try it: `python -c "from peft_igc.data.wording.words import COMMON; print(len(COMMON))"`.
"""

__all__ = [
    "CITIES",
    "COMMON",
    "MONTHS",
    "NAMES",
    "NUMBER_WORDS",
    "OBJECTS",
    "OPERATING",
    "OPERATOR_WORDS",
    "PEOPLE",
    "SYSTEM",
    "THINGS",
    "UNABLE",
    "WORDS",
]

# The completion of every row in which the calculator gives no number.
UNABLE = "I cannot compute that."

OPERATOR_WORDS = {"+": "plus", "-": "minus", "*": "times", "/": "divided by"}

# The system prompts of `templates`.
SYSTEM = (
    "You are a helpful assistant.",
    "Answer with the number only.",
    "You are a careful assistant. Keep answers short.",
    "Be brief.",
    "You answer questions about numbers and text.",
    "Today is 17 May 2024. You are a helpful assistant.",
)

# fmt: off
PEOPLE = (
    "Anna", "Ben", "Clara", "David", "Emma", "Felix", "Grace", "Henry", "Ida", "Jack", "Laura", "Max", "Nina", "Tom",
    "Sarah", "Peter", "Maria", "John", "Lucy", "Paul", "Olga", "Ali", "Mary", "Sam",
)
OBJECTS = (
    "apples", "books", "coins", "eggs", "marbles", "oranges", "pens", "stamps", "stones", "tickets", "balls",
    "bottles", "buttons", "cards", "cups", "flowers", "lemons", "letters", "nuts", "pears", "photos", "plates",
    "rings", "roses", "shells", "toys",
)
# The shorter lists of `templates`; the recorded runs depend on their order.
NAMES = PEOPLE[:14]
THINGS = (*OBJECTS[:2], "boxes", *OBJECTS[2:10])

CITIES = ("Berlin", "Cairo", "Lima", "London", "Oslo", "Paris", "Rome", "Tokyo")
MONTHS = ("January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
          "December")
NUMBER_WORDS = (
    "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve", "twenty", "fifty",
    "one hundred", "a thousand",
)
# Of texts that are to be copied or counted.
WORDS = ("the", "red", "fox", "sees", "a", "small", "house", "near", "river", "and", "waits", "for", "rain", "under",
         "old", "trees", "while", "birds", "sing", "softly")
# fmt: on

COMMON = tuple(
    """
    the a an and or but if because while although so then than as at by for from in into of off on onto out over to
    under up with without about above across after against along among around before behind below beneath beside
    between beyond down during except inside near outside past since through toward until upon within
    I you he she it we they me him her us them my your his its our their mine yours this that these those who whom
    whose which what where when why how all any both each every few many most much none other another several some such
    same own only very too also just even still yet already always never often sometimes soon later now today tomorrow
    yesterday here there everywhere nowhere again almost enough rather quite perhaps maybe together away back
    be am is are was were been being have has had do does did will would shall should can could may might must
    go goes went gone come comes came get gets got give gives gave make makes made put puts see sees saw seen say says
    said tell tells told think thinks thought know knows knew find finds found want wants wanted use uses used work
    works worked call calls called try tries tried ask asks asked need needs needed feel feels felt become leave left
    keep keeps kept let begin began begun seem seems help helps helped show shows shown hear hears heard play plays
    played run runs ran move moves moved live lives lived believe hold holds held bring brings brought happen happens
    happened write writes wrote written sit sits sat stand stands stood lose loses lost pay pays paid meet meets met
    learn learns learned change changes changed lead leads led understand watch watches watched follow follows followed
    stop stops stopped speak speaks spoke spoken read reads spend spends spent grow grows grew open opens opened walk
    walks walked win wins won teach teaches taught offer offers offered remember love loves loved consider buy buys
    bought wait waits waited serve die send sends sent expect build builds built stay stays stayed fall falls fell
    reach kill remain raise pass sell sells sold decide return explain hope carry carries carried break breaks broke
    receive agree support hit eat eats ate cover catch draw draws drew choose chose sleep sleeps slept sing sings sang
    drink drinks drank drive drives drove ride rides rode fly flies flew swim cook clean wash dance laugh cry smile
    time year people way day man woman child children thing world life hand part place case week company system
    program question government night point home water room mother father area money story fact month lot right study
    book eye job word business issue side kind head house service friend power hour game line end member law car city
    community name president team minute idea body information face door health person art war history party result
    morning reason research girl boy guy moment air teacher force education foot dog cat bird horse fish tree flower
    garden forest river lake sea mountain road street bridge train bus boat plane ship market shop store school church
    office hospital hotel kitchen window wall floor roof table chair bed lamp clock phone letter paper pen picture
    music song film news color colour red blue green yellow black white brown grey big small large little long short
    tall high low wide deep old young new good bad better best worse worst great fine nice happy sad angry tired
    hungry busy free easy hard soft heavy light strong weak fast slow early late hot cold warm cool wet dry clean
    dirty rich poor full empty loud quiet bright dark sweet bitter fresh round flat sharp kind brave clever funny
    strange simple special real true false possible important famous beautiful ugly dangerous safe
    bread butter cheese milk tea coffee sugar salt soup rice apple lemon cake meat egg breakfast lunch dinner
    sun moon star sky wind rain snow storm cloud summer winter spring autumn weather fire ice stone sand gold silver
    king queen doctor nurse farmer driver baker singer soldier uncle aunt brother sister cousin baby neighbour guest
    hat coat shoe shirt dress bag box key knife spoon cup plate bottle glass rope wheel machine engine tool
    """.split()
)

OPERATING = tuple(
    """
    plus minus times divided multiplied added subtracted sum total product quotient difference ratio add subtract
    multiply divide by more less fewer per each together altogether double half twice increase decrease remove left
    remaining equals equal result answer number numbers calculate compute count value first second take away give sell
    buy share split group groups rest much many from of to over and result
    """.split()
)
